package a2aclient

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

const (
	defaultCardAge = 5 * time.Minute
	minCardAge     = time.Minute
	maxCardAge     = 24 * time.Hour
)

type card struct {
	*wire.AgentCard

	schemes wire.NamedSecuritySchemes
	key     string // of the signing key; "" without a valid signature
	doubt   error  // why a signature could not be verified, or nil
	until   time.Time
}

// obstacle returns why a signature could not be verified, or "".
func (c *card) obstacle() string {
	if c.doubt == nil {
		return ""
	}
	return c.doubt.Error()
}

// best prefers the newest version of the protocol, and JSON-RPC first.
func (c *card) best() (*wire.AgentInterface, error) {
	for _, major := range []string{"1.", "0.3"} {
		for _, binding := range []wire.TransportProtocol{wire.TransportProtocolJSONRPC, wire.TransportProtocolHTTPJSON, wire.TransportProtocolGRPC} {
			for _, at := range c.SupportedInterfaces {
				if strings.HasPrefix(string(at.ProtocolVersion), major) && at.ProtocolBinding == binding {
					return at, nil
				}
			}
		}
	}
	var all []string
	for _, at := range c.SupportedInterfaces {
		all = append(all, fmt.Sprintf("%s %s", at.ProtocolBinding, at.ProtocolVersion))
	}
	return nil, fmt.Errorf("want an interface for JSONRPC, HTTP+JSON or GRPC of version 1.0 or 0.3; the agent has %s", strings.Join(all, ", "))
}

// tokenURL returns the client_credentials endpoint, or "".
func (c *card) tokenURL() string {
	for _, name := range slices.Sorted(maps.Keys(c.schemes)) {
		oauth, ok := c.schemes[name].(wire.OAuth2SecurityScheme)
		if !ok {
			continue
		}
		if flow, ok := oauth.Flows.(wire.ClientCredentialsOAuthFlow); ok {
			return flow.TokenURL
		}
	}
	return ""
}

// skills returns the IDs that are valid names of capabilities.
func (c *card) skills() []string {
	caps := []string{}
	for _, skill := range c.Skills {
		if federation.ValidName(skill.ID) {
			caps = append(caps, skill.ID)
		}
	}
	return caps
}

// fetchCard returns an error for an invalid signature, and notes one that cannot be verified.
func (l *Link) fetchCard(ctx context.Context) (*card, error) {
	text, header, err := l.get(ctx, l.cfg.Card)
	if err != nil {
		return nil, fmt.Errorf("fetch card %s: %w", l.cfg.Card, err)
	}
	c, err := parseCard(text)
	if err != nil {
		return nil, fmt.Errorf("read card %s: %w", l.cfg.Card, err)
	}
	c.until = time.Now().Add(lifeOf(header))
	var key string
	verdict := errUnsigned
	for _, s := range c.Signatures {
		if key, verdict = l.verify(ctx, text, s); verdict == nil || errors.Is(verdict, errForged) {
			break
		}
	}
	switch {
	case verdict == nil:
		c.key = key
	case errors.Is(verdict, errForged):
		return nil, fmt.Errorf("card %s: %w", l.cfg.Card, verdict)
	case !errors.Is(verdict, errUnsigned):
		c.doubt = verdict
	}
	return c, nil
}

func lifeOf(h http.Header) time.Duration {
	age := identity.Freshness(h)
	if age < 0 {
		return defaultCardAge
	}
	return min(max(age, minCardAge), maxCardAge)
}

// parseCard drops unused members that the library cannot read, and ignores unknown kinds of security
// schemes.
func parseCard(text []byte) (*card, error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(text, &members); err != nil {
		return nil, err
	}
	schemes := parseSchemes(members["securitySchemes"])
	for _, unused := range []string{"securityRequirements", "security", "securitySchemes", "extensions"} {
		delete(members, unused)
	}
	var skills []map[string]json.RawMessage
	if members["skills"] != nil {
		if err := federation.DecodeJSON(members["skills"], &skills); err != nil {
			return nil, fmt.Errorf("skills: %w", err)
		}
		for _, skill := range skills {
			delete(skill, "securityRequirements")
			delete(skill, "security")
		}
		var err error
		if members["skills"], err = encoded(skills); err != nil {
			return nil, err
		}
	}
	if members["url"] != nil && members["preferredTransport"] == nil {
		members["preferredTransport"] = json.RawMessage(`"JSONRPC"`) // default of version 0.3
	}
	trimmed, err := encoded(members)
	if err != nil {
		return nil, err
	}
	parsed, err := a2av0.NewAgentCardParser()(trimmed)
	if err != nil {
		return nil, err
	}
	parsed.SupportedInterfaces = slices.DeleteFunc(parsed.SupportedInterfaces, func(i *wire.AgentInterface) bool { return i == nil || i.URL == "" })
	if parsed.Name == "" || len(parsed.SupportedInterfaces) == 0 {
		return nil, errors.New("want a name and at least one interface")
	}
	return &card{AgentCard: parsed, schemes: schemes}, nil
}

func parseSchemes(text json.RawMessage) wire.NamedSecuritySchemes {
	found := wire.NamedSecuritySchemes{}
	var each map[string]json.RawMessage
	if text == nil || federation.DecodeJSON(text, &each) != nil {
		return found
	}
	for name, scheme := range each {
		one, err := encoded(map[string]any{
			"name": "-", "url": "-", "preferredTransport": "JSONRPC", "securitySchemes": map[string]json.RawMessage{name: scheme},
		})
		if err != nil {
			continue
		}
		if parsed, err := a2av0.NewAgentCardParser()(one); err == nil {
			maps.Copy(found, parsed.SecuritySchemes)
		}
	}
	return found
}

var (
	errUnsigned = errors.New("the card has no signature")
	errForged   = errors.New("the signature of the card is invalid")
)

// spec: RFC 7517 §5
type keySet struct {
	Keys []jwk `json:"keys"`
}

type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
	KeyID string `json:"kid"`
}

// spec: RFC 7638 §3
func (k jwk) thumbprint() string {
	text := fmt.Sprintf(`{"crv":%q,"kty":%q,"x":%q}`, k.Curve, k.Type, k.X)
	if k.Y != "" {
		text = fmt.Sprintf(`{"crv":%q,"kty":%q,"x":%q,"y":%q}`, k.Curve, k.Type, k.X, k.Y)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// verify requires the key set on the host of the card. A wrong signature is [errForged]; any other error
// means that the signature cannot be verified.
//
// spec: a2a-1.0 §8.4
func (l *Link) verify(ctx context.Context, text []byte, s wire.AgentCardSignature) (string, error) {
	var header struct {
		Algorithm string `json:"alg"`
		KeySet    string `json:"jku"`
		KeyID     string `json:"kid"`
	}
	protected, err := signing.DecodeBase64URL(s.Protected)
	if err == nil {
		err = federation.DecodeJSON(protected, &header)
	}
	if err != nil {
		return "", fmt.Errorf("%w: its protected header cannot be read", errForged)
	}
	signature, err := signing.DecodeBase64URL(s.Signature)
	if err != nil {
		return "", fmt.Errorf("%w: it is not base64url", errForged)
	}
	at, err := url.Parse(header.KeySet)
	own, _ := url.Parse(l.cfg.Card) // already validated
	switch {
	case header.KeySet == "":
		return "", errors.New("the signature of the card names no key set (jku)")
	case err != nil || at.Host != own.Host || at.Scheme != own.Scheme:
		return "", fmt.Errorf("the key set %s of the card is at another host", header.KeySet)
	}
	document, _, err := l.get(ctx, header.KeySet)
	var set keySet
	if err == nil {
		err = federation.DecodeJSON(document, &set)
	}
	if err != nil {
		return "", fmt.Errorf("read key set %s of the card: %w", header.KeySet, err)
	}
	i := slices.IndexFunc(set.Keys, func(k jwk) bool { return k.KeyID == header.KeyID })
	if i < 0 {
		return "", fmt.Errorf("%w: its key %q is not in %s", errForged, header.KeyID, header.KeySet)
	}
	payloads, err := canonicalCards(text)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errForged, err)
	}
	for _, payload := range payloads {
		signed := []byte(s.Protected + "." + base64.RawURLEncoding.EncodeToString(payload))
		valid, err := set.Keys[i].signed(header.Algorithm, signed, signature)
		if err != nil {
			return "", err
		}
		if valid {
			return set.Keys[i].thumbprint(), nil
		}
	}
	return "", errForged
}

// signed returns an error for an unsupported key or algorithm.
//
// spec: RFC 7518 §3.4, RFC 8037 §3.1
func (k jwk) signed(algorithm string, text, signature []byte) (bool, error) {
	members, err := encoded(k)
	if err != nil {
		return false, err
	}
	key, err := identity.ParseJWK(members)
	switch {
	case err != nil:
		return false, fmt.Errorf("the key of the card cannot be read: %w", err)
	case algorithm == "EdDSA" && key.Kind == federation.Ed25519, algorithm == "ES256" && key.Kind == federation.P256:
		return identity.Signed(key, text, signature), nil
	}
	return false, fmt.Errorf("the signature of the card uses the unsupported algorithm %s", algorithm)
}

// canonicalCards returns the two forms that libraries sign: unchanged, and without empty members.
func canonicalCards(text []byte) ([][]byte, error) {
	var members map[string]any
	if err := federation.DecodeJSON(text, &members); err != nil {
		return nil, err
	}
	delete(members, "signatures")
	var forms [][]byte
	for _, form := range []any{members, withoutEmpty(members)} {
		plain, err := encoded(form)
		if err != nil {
			return nil, err
		}
		canonical, err := jcs.Transform(plain)
		if err != nil {
			return nil, err
		}
		forms = append(forms, canonical)
	}
	return forms, nil
}

func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		full := map[string]any{}
		for name, member := range v {
			if member = withoutEmpty(member); !isEmpty(member) {
				full[name] = member
			}
		}
		return full
	case []any:
		var full []any
		for _, member := range v {
			full = append(full, withoutEmpty(member))
		}
		return full
	}
	return value
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
