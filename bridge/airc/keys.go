package airc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// spec: airc-v0.1.1 §5.4
const keyOverlap = 24 * time.Hour

// registryKeyPrefix starts the kid of the registry, and no other kid.
const registryKeyPrefix = "reg_"

// farthestExpiry is the last second of the year 2199. Later times are mistakes, most of them
// milliseconds.
const farthestExpiry = 7_258_118_399

const maxReasonChars = 280

// checkKey ignores the time in the message, because a thief of a key would backdate it.
func checkKey(key agents.Key, received time.Time) error {
	if key.ID == "" {
		return wire.Refuse(wire.CodeInvalidSignature, "kid is not a key of the sender")
	}
	switch key.Status(received) {
	case agents.KeyStatusRevoked:
		return wire.Refuse(wire.CodeKeyRevoked, "this key was revoked")
	case agents.KeyStatusExpired:
		return wire.Refuse(wire.CodeKeyExpired, "this key has expired")
	case agents.KeyStatusActive, agents.KeyStatusPending:
	}
	return nil
}

// spec: airc-v0.1.1 §5.4
func authority(agent agents.Agent, body []byte, signature string, now time.Time, schemes ...signing.Scheme) (agents.Key, error) {
	for _, key := range agent.Keys {
		if _, verdict := signing.Match(body, signature, key.Public, schemes...); verdict != federation.Valid {
			continue
		}
		if key.Status(now) == agents.KeyStatusPending {
			return key, wire.Refuse(wire.CodeInvalidSignature, "the signing key was replaced; sign with the active key")
		}
		return key, checkKey(key, now)
	}
	return agents.Key{}, wire.Refuse(wire.CodeInvalidSignature, "the signature is not by one of your keys")
}

type keyChange struct {
	*wire.Object

	agent   agents.Agent
	session federation.Session
	body    []byte
	now     time.Time
}

func (l *Link) readKeyChange(c *call) (keyChange, error) {
	change := keyChange{now: time.Now()}
	var err error
	if change.body, err = l.readBody(c); err != nil {
		return keyChange{}, err
	}
	if change.Object, err = wire.ParseObject(change.body); err != nil {
		return keyChange{}, errors.Join(c.denied, err)
	}
	if change.agent, err = l.ownerOf(c, change.First("handle"), change.now); err != nil {
		return keyChange{}, err
	}
	change.session = c.session
	return change, l.pace(change.agent, change.now)
}

func (l *Link) pace(agent agents.Agent, now time.Time) error {
	if wait := l.deps.Take(agent.DID, now); wait > 0 {
		return wire.TooMany(wait)
	}
	return nil
}

type replaced struct {
	ID        string           `json:"kid"`
	Status    agents.KeyStatus `json:"status"`
	RevokedAt *int64           `json:"revokedAt"`
}

// postRotate keeps the old key valid for [keyOverlap].
// spec: airc-v0.1.1 §5.4; airc-shapes "Sessions and proofs"
func (l *Link) postRotate(c *call) (answer, error) {
	change, err := l.readKeyChange(c)
	if err != nil {
		return answer{}, err
	}
	text := change.Text("newPublicKey")
	key := agents.Key{Created: change.now, Expires: expiry(change.Object, change.now)}
	if change.Has("newKid") {
		key.ID = change.Text("newKid")
	}
	if change.Err != nil {
		return answer{}, change.Err
	}
	if key.Public, err = wire.ParseStrictKey("newPublicKey", text); err != nil {
		return answer{}, err
	}
	if key.ID == "" {
		key.ID = signing.AgentKeyID(key.Public)
	}
	if key.ID == "" || len(key.ID) > 64 || strings.Trim(key.ID, wire.IDChars) != "" || strings.HasPrefix(key.ID, registryKeyPrefix) {
		return answer{}, wire.Refuse(wire.CodeBadRequest, "newKid is not 1 to 64 characters of A-Z a-z 0-9 _ . : -, or starts with reg_")
	}
	document := boundDocument(change.Object, map[string]string{"handle": change.agent.Handle, "newKid": key.ID})
	by, err := l.authorized(change, purposeRotate, boundRotation, document, signing.BoundRotation(), signing.Rotation(), signing.BareRotation())
	if err != nil {
		return answer{}, err
	}
	if key.DID, err = l.provedDID(c.Context(), change, key.Public, document); err != nil {
		return answer{}, err
	}
	if isBound(change.Object) {
		if err := l.boundBy(c, change.agent, by, change.now); err != nil {
			return answer{}, err
		}
	}
	after, err := l.deps.Record.RotateKey(c.Context(), change.agent.Handle, by.ID, key, change.now, change.now.Add(keyOverlap))
	if err != nil {
		return answer{}, l.keyRefusal(err, "rotate to "+key.ID)
	}
	l.wakeEnded(change.agent)
	before := describeKey(after.Key(by.ID), change.now)
	return answer{status: http.StatusOK, body: struct {
		ID       string           `json:"kid"`
		Status   agents.KeyStatus `json:"status"`
		Previous replaced         `json:"previous"`
	}{key.ID, agents.KeyStatusActive, replaced{before.ID, before.Status, before.RevokedAt}}}, nil
}

// provedDID returns "" if the request only names the key, or if its signatures name no registry.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) provedDID(ctx context.Context, change keyChange, public ed25519.PublicKey, document []byte) (federation.DID, error) {
	if !change.Has("newKeySignature") {
		return "", nil
	}
	signature, covered, scheme := change.Text("newKeySignature"), document, signing.BoundRotation()
	if !isBound(change.Object) {
		covered, scheme = change.body, signing.Rotation()
	}
	if change.Err != nil {
		return "", change.Err
	}
	if verdict, err := scheme.Verify(covered, signature, public); err != nil || verdict != federation.Valid {
		return "", wire.Refuse(wire.CodeInvalidSignature, "newKeySignature is not the new key's signature of this request")
	}
	if err := l.checkRevoked(ctx, public, change.now); err != nil || !isBound(change.Object) {
		return "", err
	}
	return identity.KeyDID(public), nil
}

func (*Link) keyRefusal(err error, what string) error {
	switch {
	case errors.Is(err, federation.ErrStale):
		return wire.Refuse(wire.CodeInvalidSignature, "the key that signed this was replaced meanwhile")
	case errors.Is(err, federation.ErrTaken):
		return wire.Refuse(wire.CodeBadRequest, "you already have a key with this name or these bytes")
	case errors.Is(err, federation.ErrNotFound):
		return wire.Refuse(wire.CodeBadRequest, "kid is not one of your keys")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// expiry returns the zero time if keyExpiresAt is absent.
// spec: airc-v0.1.1 §5.3
func expiry(o *wire.Object, now time.Time) time.Time {
	if !o.Has("keyExpiresAt") {
		return time.Time{}
	}
	var seconds int64
	if err := federation.DecodeJSON(o.Members["keyExpiresAt"], &seconds); err != nil || seconds <= now.Unix() || seconds > farthestExpiry {
		o.Fail("keyExpiresAt must be a future time in Unix seconds")
	}
	return time.Unix(seconds, 0).UTC()
}

// postRevoke ends a key at once. A handle without a remaining key stays taken.
//
// spec: airc-v0.1.1 §5.5; airc-shapes "Sessions and proofs"
func (l *Link) postRevoke(c *call) (answer, error) {
	change, err := l.readKeyChange(c)
	if err != nil {
		return answer{}, err
	}
	kid, reason := change.Text("kid"), change.Text("reason")
	if change.Err != nil {
		return answer{}, change.Err
	}
	if len([]rune(reason)) > maxReasonChars {
		return answer{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("a reason is at most %d characters", maxReasonChars))
	}
	document := boundDocument(change.Object, map[string]string{"handle": change.agent.Handle})
	by, err := l.authorized(change, purposeRevoke, boundRevocation, document, signing.BoundRevocation(), signing.Revocation())
	if err != nil {
		return answer{}, err
	}
	if isBound(change.Object) {
		if err := l.boundBy(c, change.agent, by, change.now); err != nil {
			return answer{}, err
		}
	}
	after, err := l.deps.Record.RevokeKey(c.Context(), change.agent.Handle, by.ID, kid, reason, change.now)
	if err != nil {
		return answer{}, l.keyRefusal(err, "revoke "+kid)
	}
	l.wakeEnded(change.agent)
	revoked := describeKey(after.Key(kid), change.now)
	return answer{status: http.StatusOK, body: replaced{revoked.ID, revoked.Status, revoked.RevokedAt}}, nil
}

func activeKey(agent agents.Agent, public ed25519.PublicKey, now time.Time) agents.Key {
	for _, key := range agent.Keys {
		if key.Public.Equal(public) && key.Status(now) == agents.KeyStatusActive {
			return key
		}
	}
	return agents.Key{}
}

// readmit ends the sessions begun without a proof of the key.
//
// spec: airc-shapes "Requests", "Sessions and proofs"
func (l *Link) readmit(c *call, agent agents.Agent, key agents.Key, now time.Time) (answer, error) {
	agent, err := l.prove(c.Context(), agent, key, now)
	if err != nil {
		return answer{}, err
	}
	if err := l.endUnbound(c.Context(), agent, "", now); err != nil {
		return answer{}, err
	}
	session, err := l.begin(c.Context(), newSession(c, agent.Handle, federation.BeganBound, key, now))
	if err != nil {
		return answer{}, err
	}
	pair, err := l.tokensOf(session, now)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: l.registered(agent, key.ID, pair)}, nil
}

// prove does not reassign another agent's DID, and ignores a key revoked for its DID.
//
// spec: airc-shapes "Who is who"
func (l *Link) prove(ctx context.Context, agent agents.Agent, key agents.Key, now time.Time) (agents.Agent, error) {
	if key.Proved() {
		return agent, nil
	}
	did := identity.KeyDID(key.Public)
	_, err := l.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil: // agents that share a key must not cause a write per message
		return agent, nil
	case !errors.Is(err, federation.ErrNotFound):
		return agent, fmt.Errorf("look up agent: %w", err)
	}
	if revoked, err := l.deps.Keys.Revoked(ctx, did, federation.KeyID(key.Public), now); err != nil || revoked {
		return agent, err
	}
	after, err := l.deps.Record.ProveKey(ctx, agent.Handle, key.ID, did, now)
	if err != nil {
		return agent, fmt.Errorf("record that %s proved %s: %w", agent.Handle, key.ID, err)
	}
	return after, nil
}

func (l *Link) checkRevoked(ctx context.Context, public ed25519.PublicKey, now time.Time) error {
	revoked, err := l.deps.Keys.Revoked(ctx, identity.KeyDID(public), federation.KeyID(public), now)
	if err != nil {
		return fmt.Errorf("look up the history of a key: %w", err)
	}
	if revoked {
		return wire.Refuse(wire.CodeKeyRevoked, "this key was revoked")
	}
	return nil
}
