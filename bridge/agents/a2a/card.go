package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/federation"
)

// The DID follows the prefix.
const (
	gatewayPath = "/a2a"
	agentPath   = "/a2a/"
)

const cardAge = "public, max-age=300"

type resident struct {
	did  federation.DID // "" for the gateway
	name string
	caps []string
}

// resident returns the error of [errNoAgent] for a DID that takes no tasks here.
func (l *Link) resident(ctx context.Context, did federation.DID) (resident, error) {
	here, err := l.deps.Agents.Here(ctx, did)
	if err != nil {
		return resident{}, fmt.Errorf("locate mailbox of %s: %w", did, err)
	}
	if !here {
		return resident{}, errNoAgent()
	}
	known, err := l.access.Agent(ctx, did)
	if err != nil {
		return resident{}, err
	}
	r := resident{did: did, name: string(did), caps: known.Caps}
	registered, err := l.deps.Agents.AgentOf(ctx, did)
	switch {
	case errors.Is(err, federation.ErrNotFound) && len(r.caps) == 0:
		return resident{}, errNoAgent()
	case err == nil:
		r.name = registered.Handle
	case !errors.Is(err, federation.ErrNotFound):
		return resident{}, fmt.Errorf("look up agent: %w", err)
	}
	return r, nil
}

func (l *Link) serveGatewayCard(w http.ResponseWriter, r *http.Request) {
	l.serveCard(w, r, resident{name: string(l.deps.Home)})
}

func (l *Link) serveAgentCard(w http.ResponseWriter, r *http.Request) {
	did, err := l.addressee(r)
	if err != nil {
		l.deny(w, r, err)
		return
	}
	agent, err := l.resident(r.Context(), did)
	if err != nil {
		l.deny(w, r, err)
		return
	}
	l.serveCard(w, r, agent)
}

func (l *Link) serveCard(w http.ResponseWriter, r *http.Request, of resident) {
	text, err := l.signedCard(r.Context(), of)
	if err == nil && versionOf(r) != string(wire.Version) {
		text, err = l.withLegacyMembers(text, of)
	}
	w.Header().Add("Vary", wire.SvcParamVersion)
	if err != nil {
		l.deny(w, r, err)
		return
	}
	serveDocument(w, r, text)
}

// spec: RFC 9110 §13
func serveDocument(w http.ResponseWriter, r *http.Request, text []byte) {
	sum := sha256.Sum256(text)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", cardAge)
	h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(text)))
}

func (l *Link) signedCard(ctx context.Context, of resident) ([]byte, error) {
	text, err := json.Marshal(l.card(of))
	if err != nil {
		return nil, fmt.Errorf("write card: %w", err)
	}
	canonical, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("write card: %w", err)
	}
	signature, err := l.sign(ctx, canonical)
	if err != nil {
		return nil, err
	}
	members, err := json.Marshal([]wire.AgentCardSignature{signature})
	if err != nil {
		return nil, fmt.Errorf("write card: %w", err)
	}
	return append(append(append(canonical[:len(canonical)-1], `,"signatures":`...), members...), '}', '\n'), nil
}

const (
	handoffsScope   = "handoffs"
	handoffsPurpose = "offer and follow"
)

// card sets no member to an empty, false or zero value, because libraries canonicalize those differently.
// It omits securityRequirements: a2a-go cannot read their valid form.
func (l *Link) card(of resident) wire.AgentCard {
	media := []string{"text/plain", mediaJSON}
	return wire.AgentCard{
		Name: of.name, Description: describe(of), Version: l.deps.Version,
		Provider: &wire.AgentProvider{Org: string(l.deps.Home), URL: l.deps.PublicURL},
		SupportedInterfaces: []*wire.AgentInterface{
			wire.NewAgentInterface(l.endpoint(of.did), wire.TransportProtocolJSONRPC),
			wire.NewAgentInterface(l.endpoint(of.did)+restPath, wire.TransportProtocolHTTPJSON),
		},
		Capabilities:      wire.AgentCapabilities{Streaming: true, PushNotifications: l.deps.Hooks != nil},
		DefaultInputModes: media, DefaultOutputModes: media, Skills: skillsOf(of),
		SecuritySchemes: wire.NamedSecuritySchemes{
			"did": wire.HTTPAuthSecurityScheme{Scheme: "Bearer"},
			"oauth": wire.OAuth2SecurityScheme{Flows: wire.ClientCredentialsOAuthFlow{
				TokenURL: l.deps.PublicURL + "/oauth/token", Scopes: map[string]string{handoffsScope: handoffsPurpose},
			}},
		},
	}
}

// endpoint returns the address of the gateway if did is "".
func (l *Link) endpoint(did federation.DID) string {
	if did == "" {
		return l.deps.PublicURL + gatewayPath
	}
	return l.deps.PublicURL + agentPath + url.PathEscape(string(did))
}

func describe(of resident) string {
	acceptance := "Any agent of this gateway that can do the work may claim it."
	if of.did != "" {
		acceptance = "The agent behind " + string(of.did) + " accepts or declines it."
	}
	return "A message is an offer of work, and the task is its handoff. " + acceptance +
		" A task may take days: send with returnImmediately, and poll, subscribe, or configure push notifications."
}

// skillsOf returns a single skill if the agent declared no capabilities.
func skillsOf(of resident) []wire.AgentSkill {
	var skills []wire.AgentSkill
	for _, capability := range of.caps {
		skills = append(skills, wire.AgentSkill{
			ID: capability, Name: capability, Description: "The agent declared the capability " + capability + ".", Tags: []string{capability},
		})
	}
	if skills == nil {
		skills = []wire.AgentSkill{{ID: "handoff", Name: "handoff", Description: "Takes offers of work.", Tags: []string{"handoff"}}}
	}
	return skills
}

const keysPath = "/.well-known/jwks.json"

// protected has its members in the order of the signed header.
//
// spec: RFC 7515 §4
type protected struct {
	Algorithm string `json:"alg"`
	KeySet    string `json:"jku"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
}

// spec: RFC 7515 §5.1
func (l *Link) sign(ctx context.Context, canonical []byte) (wire.AgentCardSignature, error) {
	key := l.deps.Signer.Own()
	header, err := json.Marshal(protected{"EdDSA", l.deps.PublicURL + keysPath, federation.KeyID(key.Public), "JOSE"})
	if err != nil {
		return wire.AgentCardSignature{}, fmt.Errorf("sign card: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signature, err := key.Sign(ctx, []byte(encode(header)+"."+encode(canonical)))
	if err != nil {
		return wire.AgentCardSignature{}, fmt.Errorf("sign card: %w", err)
	}
	return wire.AgentCardSignature{Protected: encode(header), Signature: encode(signature)}, nil
}

// spec: RFC 7517 §5
type keySet struct {
	Keys []publicKey `json:"keys"`
}

// spec: RFC 8037 §2
type publicKey struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	KeyID     string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
}

func (l *Link) serveKeys(w http.ResponseWriter, r *http.Request) {
	set := keySet{Keys: []publicKey{}}
	for _, key := range l.deps.PublicKeys(time.Now()) {
		set.Keys = append(set.Keys, publicKey{
			Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key), KeyID: federation.KeyID(key), Algorithm: "EdDSA", Use: "sig",
		})
	}
	text, err := json.Marshal(set)
	if err != nil {
		l.deny(w, r, err)
		return
	}
	serveDocument(w, r, append(text, '\n'))
}
