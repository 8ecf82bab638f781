package airc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
)

// keyProof is a request below /api that changes the keys of an agent.
type keyProof struct {
	*wire.Object

	agent     agents.Agent
	session   federation.Session // zero without a token
	signed    *wire.Object       // nil if unsigned
	signature string
	now       time.Time
}

// readKeyProof accepts requests without a token: a client with a recovery key sends none.
func (l *Link) readKeyProof(c *call) (keyProof, error) {
	p := keyProof{now: time.Now()}
	body, err := l.readBody(c)
	if err != nil {
		return keyProof{}, err
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		body = []byte("{}")
	}
	if p.Object, err = wire.ParseObject(body); err != nil {
		return keyProof{}, err
	}
	switch proof := p.Members["proof"]; {
	case len(proof) > 0 && proof[0] == '{':
		if p.signed, err = wire.ParseObject(proof); err != nil {
			return keyProof{}, err
		}
		p.signature = p.signed.First("signature")
	case p.First("proof") != "":
		p.signed, p.signature = p.Object, p.First("proof")
	}
	if err := l.keyHolder(c, &p); err != nil {
		return keyProof{}, err
	}
	if named := p.signedHandle(); named != "" && named != p.agent.Handle {
		return keyProof{}, wire.Refuse(wire.CodeNotYourHandle, "the proof names another handle")
	}
	return p, l.pace(p.agent, p.now)
}

func (p keyProof) signedHandle() string {
	if p.signed == nil {
		return ""
	}
	return wire.PlainHandle(p.signed.First("handle"))
}

// keyHolder counts a request without a token against the limit of its address.
func (l *Link) keyHolder(c *call, p *keyProof) error {
	named := c.PathValue("handle")
	if c.denied == nil {
		var err error
		p.agent, err = c.self(named)
		p.session = c.session
		return err
	}
	handle := wire.PlainHandle(named)
	if handle == "" {
		handle = p.signedHandle()
	}
	if p.signed == nil || handle == "" {
		return authenticationRequired(c.denied)
	}
	if err := l.login(c, p.now); err != nil {
		return err
	}
	agent, err := l.deps.Record.Agent(c.Context(), handle)
	switch {
	case errors.Is(err, federation.ErrNotFound) || err == nil && agent.Recovery == nil:
		return authenticationRequired(c.denied)
	case err != nil:
		return fmt.Errorf("look up agent: %w", err)
	}
	p.agent = agent
	return l.checkBlocked(c.Context(), agent.Handle, agent.DID)
}

// check returns the zero Key for the recovery key. A signature by a key of the agent names no registry,
// so it requires a bound session.
//
// spec: airc-shapes "Sessions and proofs"
func (p keyProof) check() (agents.Key, error) {
	if p.signed == nil {
		return agents.Key{}, wire.Refuse(wire.CodeInvalidSignature, "a proof by the active key or by the recovery key is needed")
	}
	if p.now.Sub(p.signed.Time("timestamp")).Abs() > wire.ClockSkew {
		return agents.Key{}, wire.Refuse(wire.CodeInvalidTimestamp, "timestamp is more than 300 seconds from the clock here")
	}
	rest := maps.Clone(p.signed.Members)
	delete(rest, "proof") // in one form, this member is the signature itself
	text, err := json.Marshal(rest)
	if err != nil {
		return agents.Key{}, fmt.Errorf("write proof: %w", err)
	}
	signedBy := func(public []byte) bool {
		verdict, err := signing.LegacyMessage().Verify(text, p.signature, public)
		return err == nil && verdict == federation.Valid
	}
	if p.agent.Recovery != nil && signedBy(p.agent.Recovery) {
		return agents.Key{}, nil
	}
	for _, key := range p.agent.Keys {
		if key.Status(p.now) != agents.KeyStatusActive || !signedBy(key.Public) {
			continue
		}
		if !p.session.Bound {
			return agents.Key{}, wire.Refuse(wire.CodeInvalidSignature, "a signature by the active key names no registry: sign with the recovery key, or use POST /identity/rotate or /identity/revoke")
		}
		return key, nil
	}
	return agents.Key{}, wire.Refuse(wire.CodeInvalidSignature, "the signature is by neither your active key nor your recovery key")
}

// postDeployedRotate ends all earlier keys and sessions after a recovery, because a thief may have them.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) postDeployedRotate(c *call) (answer, error) {
	p, err := l.readKeyProof(c)
	if err != nil {
		return answer{}, err
	}
	var by agents.Key
	if p.signed != nil || len(p.agent.Keys) > 0 {
		if by, err = p.check(); err != nil {
			return answer{}, err
		}
	}
	named := p.Object
	if p.signed != nil {
		named = p.signed
	}
	public, err := wire.ParsePublicKey(named.First("new_public_key", "new_key", "publicKey", "newPublicKey"))
	if err != nil {
		return answer{}, err
	}
	if does := named.First("action", "operation"); p.signed != nil && does != "" && does != "rotate" {
		return answer{}, wire.Refuse(wire.CodeInvalidSignature, "the proof is not for a rotation")
	}
	if err := l.checkRevoked(c.Context(), public, p.now); err != nil {
		return answer{}, err
	}
	key, until, recovers := namedKey(public, p.now), p.now.Add(keyOverlap), by.ID == "" && p.signed != nil
	if recovers {
		until = p.now
	}
	after, err := l.deps.Record.RotateKey(c.Context(), p.agent.Handle, by.ID, key, p.now, until)
	if err != nil {
		return answer{}, l.keyRefusal(err, "rotate to "+key.ID)
	}
	body := wire.Members{
		"success": true, "handle": p.agent.Handle, "public_key": wire.KeyText(public), "kid": key.ID, "key_rotated_at": wire.ISOTime(p.now),
	}
	if recovers {
		if err := l.recovered(c, after, body, p.now); err != nil {
			return answer{}, err
		}
	}
	l.wakeEnded(p.agent)
	return answer{status: http.StatusOK, body: body}, nil
}

func (l *Link) recovered(c *call, agent agents.Agent, body wire.Members, now time.Time) error {
	if _, err := l.deps.Record.EndSessions(c.Context(), participantsOf(agent), "", false, now); err != nil {
		return err
	}
	session, err := l.begin(c.Context(), l.deployedSession(c, agent, federation.BeganHeader, now))
	if err != nil {
		return err
	}
	token, err := l.deployedToken(session, now)
	if err != nil {
		return err
	}
	body["token"], body["session_token"], body["expires_at"] = token, token, wire.ISOTime(session.Expires)
	return nil
}

func (l *Link) postDeployedRevoke(c *call) (answer, error) {
	p, err := l.readKeyProof(c)
	if err != nil {
		return answer{}, err
	}
	by, err := p.check()
	if err != nil {
		return answer{}, err
	}
	if by.ID == "" && p.signed.First("action", "operation") != "revoke" {
		return answer{}, wire.Refuse(wire.CodeInvalidSignature, "the recovery key signed no revocation")
	}
	reason := wire.Cut(p.First("reason"), maxReasonChars)
	if err := l.deps.Record.RevokeAgent(c.Context(), p.agent.Handle, by.ID, reason, p.now); err != nil {
		return answer{}, l.keyRefusal(err, "revoke "+p.agent.Handle)
	}
	l.wakeEnded(p.agent)
	return answer{status: http.StatusOK, body: wire.Members{
		"success": true, "handle": p.agent.Handle, "status": "revoked", "revoked_at": wire.ISOTime(p.now),
	}}, nil
}
