package airc

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// Capabilities and metadata are kept forever and read with every message.
const maxProfileBytes = 16384

type registration struct {
	handle       string
	public       ed25519.PublicKey
	challenge    string
	signature    string
	bound        bool // the signature names this registry
	body         []byte
	capabilities json.RawMessage
	webhook      string // "" for none
	metadata     json.RawMessage
	expires      time.Time // of the key; zero for never
	oidc         json.RawMessage
	account      agents.Account // if this registry accepts accounts
}

func parseRegistration(o *wire.Object, now time.Time) (registration, error) {
	reg := registration{
		expires: expiry(o, now), bound: isBound(o),
		handle: o.Text("handle"), challenge: o.Text("challenge"), signature: o.Text("challengeSignature"),
		capabilities: o.Nested("capabilities"), metadata: o.Nested("metadata"), oidc: o.Nested("oidc"),
	}
	key := o.Text("publicKey")
	if o.Err != nil {
		return registration{}, o.Err
	}
	public, err := wire.ParseStrictKey("publicKey", key)
	if err != nil {
		return registration{}, err
	}
	reg.public = public
	if reg.webhook, reg.capabilities, err = splitWebhook(reg.capabilities); err != nil {
		return registration{}, err
	}
	if len(reg.capabilities)+len(reg.metadata) > maxProfileBytes {
		return registration{}, wire.Refuse(wire.CodePayloadTooLarge, "capabilities and metadata are at most "+strconv.Itoa(maxProfileBytes)+" bytes")
	}
	if _, err := parseCapabilities(reg.capabilities); err != nil {
		return registration{}, wire.Refuse(wire.CodeBadRequest, "capabilities: payloads, delivery and skills are lists of strings, maxPayloadSize a number of bytes")
	}
	return reg, nil
}

// possessed also accepts a signature of the bare challenge, as text or as decoded bytes.
//
// spec: airc-v0.1.1 §5.1; airc-shapes "Sessions and proofs"
func (reg registration) possessed() bool {
	if reg.bound {
		verdict, err := signing.BoundRegistration().Verify(reg.body, reg.signature, reg.public)
		return err == nil && verdict == federation.Valid
	}
	_, verdict := signing.Match([]byte(reg.challenge), reg.signature, reg.public, signing.Challenge(), signing.DecodedChallenge())
	return verdict == federation.Valid
}

func (l *Link) postRegister(c *call) (answer, error) {
	now := time.Now()
	if err := check(l.registrations.Left(credential.AddressOf(c.Request), now), time.Hour); err != nil {
		return answer{}, err
	}
	o, body, err := l.readSigned(c)
	if err != nil {
		return answer{}, err
	}
	reg, err := parseRegistration(o, now)
	if err != nil {
		return answer{}, err
	}
	if reg.body = body; reg.bound {
		if err := l.checkBound(o, purposeRegister, now); err != nil {
			return answer{}, err
		}
	}
	if err := l.checkBlocked(c.Context(), reg.handle, identity.KeyDID(reg.public)); err != nil {
		return answer{}, err
	}
	agent, err := l.holding(c.Context(), reg.handle)
	if err != nil {
		return answer{}, err
	}
	if agent != nil && activeKey(*agent, reg.public, now).ID == "" {
		return answer{}, federation.ErrTaken
	}
	if err := l.checkWebhook(c.Context(), reg.webhook); err != nil {
		return answer{}, err
	}
	if err := l.spend(reg.challenge, reg.handle, now); err != nil {
		return answer{}, err
	}
	if !reg.possessed() {
		return answer{}, wire.Refuse(wire.CodeChallengeInvalid, "the challenge was not signed with this key")
	}
	if agent != nil && !reg.bound {
		return answer{}, needBound(wire.CodeChallengeInvalid, boundRegistration)
	}
	if err := l.checkRevoked(c.Context(), reg.public, now); err != nil {
		return answer{}, err
	}
	if !l.registrations.Take(credential.AddressOf(c.Request), now) {
		return answer{}, wire.TooMany(time.Hour)
	}
	if agent != nil {
		return l.readmit(c, *agent, activeKey(*agent, reg.public, now), now)
	}
	if err := l.bind(c.Context(), &reg, now); err != nil {
		return answer{}, err
	}
	return l.admit(c, reg, now)
}

// admit gives the agent the did:key of its key only if the signature names this registry.
func (l *Link) admit(c *call, reg registration, now time.Time) (answer, error) {
	kept := l.kept(reg.handle)
	key, began := agents.Key{ID: signing.AgentKeyID(reg.public), Public: reg.public, Created: now, Expires: reg.expires}, federation.BeganChallenge
	if reg.bound {
		key.DID, began = identity.KeyDID(reg.public), federation.BeganBound
	}
	agent := agents.Agent{
		Handle: reg.handle, DID: kept.DID, OwnDID: cmp.Or(key.DID, kept.DID), KeptKey: kept.Public,
		Keys:         []agents.Key{key},
		Capabilities: reg.capabilities, Metadata: reg.metadata, Registered: now, Account: reg.account, Began: began,
	}
	session := newSession(c, reg.handle, began, key, now)
	session.Ends = reg.expires
	pair, err := l.tokensOf(session, now)
	if err != nil {
		return answer{}, err
	}
	err = l.addAgent(c.Context(), agent, session, now)
	switch {
	case errors.Is(err, federation.ErrTokenUsed):
		return answer{}, wire.Refuse(wire.CodeUnauthorized, "idToken has no nonce, and its account has registered since it was issued: get one whose nonce is the challenge")
	case err != nil:
		return answer{}, fmt.Errorf("register %s: %w", reg.handle, err)
	}
	body := l.registered(agent, key.ID, pair)
	body.Hook = l.hook(c.Context(), agent, reg.webhook, session, now)
	return answer{status: http.StatusCreated, body: body}, nil
}

type registered struct {
	Handle string         `json:"handle"`
	Domain string         `json:"domain"`
	DID    federation.DID `json:"did"`
	KeyID  string         `json:"kid"`
	OIDC   *account       `json:"oidc,omitempty"`
	Hook   *hook          `json:"webhook,omitempty"`
	tokenPair
}

func (l *Link) registered(agent agents.Agent, kid string, pair tokenPair) registered {
	body := registered{Handle: agent.Handle, Domain: l.domain, DID: agent.DID, KeyID: kid, tokenPair: pair}
	if agent.Account != (agents.Account{}) {
		body.OIDC = &account{Issuer: agent.Account.Issuer, Subject: agent.Account.Subject}
	}
	return body
}

func (l *Link) kept(handle string) federation.SigningKey { return l.deps.Signer.Kept("airc:" + handle) }

// owner returns [federation.ErrNotFound] for a released handle.
func (l *Link) owner(ctx context.Context, handle string) (agents.Agent, error) {
	agent, err := l.deps.Record.Agent(ctx, handle)
	if err == nil && !agent.Released.IsZero() {
		err = fmt.Errorf("%s was released: %w", handle, federation.ErrNotFound)
	}
	return agent, err
}

// holding returns nil if the handle can be registered, and an error unless its agent has an active key.
func (l *Link) holding(ctx context.Context, handle string) (*agents.Agent, error) {
	if err := checkHandle(handle); err != nil {
		return nil, err
	}
	agent, err := l.owner(ctx, handle)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil, l.checkFree(ctx, handle)
	case err != nil:
		return nil, fmt.Errorf("look up agent: %w", err)
	case len(agent.Keys) == 0 || agent.Primary(time.Now()).Status(time.Now()) != agents.KeyStatusActive:
		return nil, federation.ErrTaken
	}
	return &agent, nil
}

// checkFree reserves every alias, because its DID may appear later.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) checkFree(ctx context.Context, handle string) error {
	if err := checkHandle(handle); err != nil {
		return err
	}
	if _, hash := wire.ParseHandle(handle); hash != "" {
		return wire.Refuse(wire.CodeInvalidHandle, "handles that end in _ and ten letters of base32 are aliases of DIDs")
	}
	_, err := l.owner(ctx, handle)
	switch {
	case err == nil:
		return federation.ErrTaken
	case errors.Is(err, federation.ErrNotFound):
		return nil
	}
	return err
}

type capabilities struct {
	Payloads       []string `json:"payloads"`
	MaxPayloadSize int      `json:"maxPayloadSize"` // bytes; 0 if not declared
	Delivery       []string `json:"delivery"`
	Skills         []string `json:"skills"`
}

func parseCapabilities(text json.RawMessage) (capabilities, error) {
	var c capabilities
	if len(text) == 0 {
		return c, nil
	}
	if err := federation.DecodeJSON(text, &c); err != nil {
		return c, fmt.Errorf("read capabilities: %w", err)
	}
	if c.MaxPayloadSize < 0 {
		return c, errors.New("read capabilities: maxPayloadSize below 0")
	}
	return c, nil
}

// spend consumes a challenge, whatever the outcome of the registration.
func (l *Link) spend(challenge, handle string, now time.Time) error {
	err := l.challenges.Spend(challenge, handle, now)
	switch {
	case errors.Is(err, credential.ErrChallenge):
		return wire.Refuse(wire.CodeChallengeInvalid, "this challenge was not issued for this handle, or was used before")
	case errors.Is(err, credential.ErrChallengeExpired):
		return wire.Refuse(wire.CodeChallengeExpired, "this challenge has expired; ask for another")
	}
	return err
}

// spec: airc-v0.1.1 §5.1
func (l *Link) postChallenge(c *call) (answer, error) {
	now := time.Now()
	if err := check(l.registrations.Left(credential.AddressOf(c.Request), now), time.Hour); err != nil {
		return answer{}, err
	}
	if err := l.login(c, now); err != nil {
		return answer{}, err
	}
	o, err := l.readObject(c)
	if err != nil {
		return answer{}, err
	}
	handle := o.Text("handle")
	if o.Err != nil {
		return answer{}, o.Err
	}
	if _, err := l.holding(c.Context(), handle); err != nil {
		return answer{}, err
	}
	challenge, ends := l.challenges.Issue(handle, now)
	return answer{status: http.StatusOK, body: struct {
		Challenge string `json:"challenge"`
		ExpiresAt int64  `json:"expiresAt"`
		Audience  string `json:"aud"`
	}{challenge, ends.Unix(), l.domain}}, nil
}

// KeptAgent returns a new agent for which the gateway signs. The error is a [*bridge.ProblemError] for
// an invalid name.
func KeptAgent(handle string, signer bridge.Signer, now time.Time) (agents.Agent, error) {
	err := checkHandle(handle)
	if _, hash := wire.ParseHandle(handle); err == nil && hash != "" {
		err = wire.Refuse(wire.CodeInvalidHandle, "names that end in _ and ten letters of base32 are aliases of DIDs")
	}
	if refused, ok := errors.AsType[*wire.ProblemError](err); ok {
		return agents.Agent{}, bridge.UsageProblem("name: " + refused.Message)
	}
	kept := signer.Kept("airc:" + handle)
	return agents.Agent{
		Handle: handle, DID: kept.DID, OwnDID: kept.DID, KeptKey: kept.Public, Registered: now,
		Shows: agents.Shows{Presence: agents.VisiblePublic, Context: agents.VisiblePublic}, Began: federation.BeganKeyless,
	}, err
}

// addAgent counts the agent as new even if filing fails. An agent of another registry gets no session.
func (l *Link) addAgent(ctx context.Context, agent agents.Agent, first federation.Session, now time.Time) error {
	if err := l.deps.Admit(ctx, agent.DID, now); err != nil {
		return err
	}
	if err := l.deps.Meet(ctx, agent.DID, now); err != nil {
		return fmt.Errorf("record the DID of %s as known: %w", agent.Handle, err)
	}
	if first.ID == "" {
		return l.deps.Record.AddAgent(ctx, agent)
	}
	return l.deps.Record.AddAgentSession(ctx, agent, first)
}

// A signature for one purpose is invalid for all others.
const (
	purposeRegister = "register"
	purposeRotate   = "rotate"
	purposeRevoke   = "revoke"
)

func isBound(o *wire.Object) bool { return o.Has("aud") || o.Has("purpose") }

// spec: airc-shapes "Sessions and proofs"
func (l *Link) checkBound(o *wire.Object, purpose string, now time.Time) error {
	aud, named := o.Text("aud"), o.Text("purpose")
	var seconds int64
	if federation.DecodeJSON(o.Members["timestamp"], &seconds) != nil {
		o.Fail("timestamp is missing or not a whole number of seconds")
	}
	switch {
	case o.Err != nil:
		return o.Err
	case aud != l.domain:
		return wire.Refuse(wire.CodeAudienceMismatch, "aud is not "+l.domain)
	case named != purpose:
		return wire.Refuse(wire.CodeInvalidSignature, "purpose is not "+purpose)
	case now.Sub(time.Unix(seconds, 0)).Abs() > wire.ClockSkew:
		return wire.Refuse(wire.CodeInvalidTimestamp, "timestamp is more than 300 seconds from the clock here")
	}
	return nil
}

// boundDocument adds the defaults of omitted members.
func boundDocument(o *wire.Object, defaults map[string]string) []byte {
	members := map[string]json.RawMessage{}
	for name, text := range defaults {
		members[name] = wire.JSONString(text)
	}
	maps.Copy(members, o.Members)
	document, err := json.Marshal(members)
	if err != nil {
		panic("airc: a request that was read cannot be written: " + err.Error())
	}
	return document
}

func needBound(c wire.Code, members string) error {
	return wire.Refuse(c, "a signature that names no registry is not enough: sign the JCS form of "+members+" (aud is this registry's domain)")
}

const (
	boundRegistration = "aud, challenge, handle, publicKey, purpose, timestamp"
	boundRotation     = "aud, handle, newKid, newPublicKey, purpose, timestamp"
	boundRevocation   = "aud, handle, kid, purpose, reason, timestamp"
)

// authorized accepts a bound proof over document, or a bare signature in a bound session.
//
// spec: airc-v0.1.1 §5.4; airc-shapes "Sessions and proofs"
func (l *Link) authorized(change keyChange, purpose, covered string, document []byte, bound signing.Scheme, bare ...signing.Scheme) (agents.Key, error) {
	signature := change.Text("signature")
	switch {
	case change.Err != nil:
		return agents.Key{}, change.Err
	case !isBound(change.Object):
		key, err := authority(change.agent, change.body, signature, change.now, bare...)
		if err == nil && !change.session.Bound {
			err = needBound(wire.CodeInvalidSignature, covered)
		}
		return key, err
	}
	if err := l.checkBound(change.Object, purpose, change.now); err != nil {
		return agents.Key{}, err
	}
	if named := change.First("handle"); named != "" && named != change.agent.Handle {
		return agents.Key{}, wire.Refuse(wire.CodeInvalidSignature, "handle does not match the token")
	}
	return authority(change.agent, document, signature, change.now, bound)
}

// boundBy ends the agent's sessions begun without a bound proof, except a session of the request with
// the same key.
func (l *Link) boundBy(c *call, agent agents.Agent, key agents.Key, now time.Time) error {
	current := ""
	if c.session.ID != "" && c.session.Key == federation.KeyID(key.Public) {
		current = c.session.ID
		if err := l.deps.Record.BindSession(c.Context(), current); err != nil {
			return err
		}
	}
	return l.endUnbound(c.Context(), agent, current, now)
}
