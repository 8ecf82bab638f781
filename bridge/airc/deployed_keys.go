package airc

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// keyProof is a request below /api about the keys of its caller: the part of it that
// is signed, in the place where each client has it.
type keyProof struct {
	*object // the whole request

	agent     agents.Agent
	signed    *object // what the signature covers; nil where nothing is signed
	signature string
	now       time.Time
}

// readKeyProof reads such a request.
func (l *Link) readKeyProof(c *call) (keyProof, error) {
	agent, err := c.self(c.PathValue("handle"))
	if err != nil {
		return keyProof{}, err
	}
	p := keyProof{agent: agent, now: time.Now()}
	body, err := l.readPaced(c, agent, p.now)
	if err != nil {
		return keyProof{}, err
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		body = []byte("{}") // one client sends none
	}
	if p.object, err = parseObject(body); err != nil {
		return keyProof{}, err
	}
	switch proof := p.members["proof"]; {
	case len(proof) > 0 && proof[0] == '{':
		if p.signed, err = parseObject(proof); err != nil {
			return keyProof{}, err
		}
		p.signature = p.signed.first("signature")
	case p.first("proof") != "":
		p.signed, p.signature = p.object, p.first("proof")
	}
	return p, nil
}

// check returns the key of the agent that signed a request not long ago.
func (p keyProof) check() (agents.Key, error) {
	if p.signed == nil {
		return agents.Key{}, refuse(codeInvalidSignature, "a proof by the active key is needed")
	}
	if p.now.Sub(p.signed.time("timestamp")).Abs() > clockSkew {
		return agents.Key{}, refuse(codeInvalidTimestamp, "timestamp is more than 300 seconds from the clock here")
	}
	rest := maps.Clone(p.signed.members)
	delete(rest, "proof") // in one form it is the signature itself
	text, err := json.Marshal(rest)
	for _, key := range p.agent.Keys {
		if err != nil || key.Status(p.now) != agents.KeyStatusActive {
			continue
		}
		if verdict, err := signing.LegacyMessage().Verify(text, p.signature, key.Public); err == nil && verdict == federation.Valid {
			return key, nil
		}
	}
	return agents.Key{}, refuse(codeInvalidSignature, "no active key of yours signed this")
}

// time returns a member that is a time, in unix seconds or as text; the zero time
// where it is none.
func (o *object) time(name string) time.Time {
	var seconds int64
	if federation.DecodeJSON(o.members[name], &seconds) == nil {
		return time.Unix(seconds, 0)
	}
	at, _ := time.Parse(time.RFC3339, o.first(name))
	return at
}

// postDeployedRotate answers POST /api/identity/{handle}/rotate. The active key signs
// for the new one; an agent that has none binds its first with its token alone.
func (l *Link) postDeployedRotate(c *call) (answer, error) {
	p, err := l.readKeyProof(c)
	if err != nil {
		return answer{}, err
	}
	text := p.first("new_public_key", "publicKey", "newPublicKey")
	if p.signed != nil {
		if signed := p.signed.first("new_public_key", "new_key"); signed != "" {
			text = signed // what the signature covers
		}
	}
	public, err := parsePublicKey(text)
	if err != nil {
		return answer{}, err
	}
	var by agents.Key
	if len(p.agent.Keys) > 0 {
		if by, err = p.check(); err != nil {
			return answer{}, err
		}
	}
	key := namedKey(public, p.now)
	if _, err := l.deps.Registry.Keys.RotateKey(c.Context(), p.agent.Handle, by.ID, key, p.now, p.now.Add(keyOverlap)); err != nil {
		return answer{}, l.keyRefusal(err, "rotate to "+key.ID)
	}
	return answer{status: http.StatusOK, body: members{
		"success": true, "handle": p.agent.Handle, "public_key": registryKeyText(public), "kid": key.ID, "key_rotated_at": isoTime(p.now),
	}}, nil
}

// postDeployedRevoke answers POST /api/identity/revoke: all keys of the caller end, and
// with them its tokens. It is for ever.
func (l *Link) postDeployedRevoke(c *call) (answer, error) {
	p, err := l.readKeyProof(c)
	if err != nil {
		return answer{}, err
	}
	by, err := p.check()
	if err != nil {
		return answer{}, err
	}
	reason := cut(p.first("reason"), maxReasonChars)
	ends := []string{}
	for _, key := range p.agent.Keys {
		if key.ID != by.ID && key.Signs(p.now) {
			ends = append(ends, key.ID)
		}
	}
	for _, kid := range append(ends, by.ID) { // the one that signs goes last
		if _, err := l.deps.Registry.Keys.RevokeKey(c.Context(), p.agent.Handle, by.ID, kid, reason, p.now); err != nil {
			return answer{}, l.keyRefusal(err, "revoke "+kid)
		}
	}
	return answer{status: http.StatusOK, body: members{
		"success": true, "handle": p.agent.Handle, "status": "revoked", "revoked_at": isoTime(p.now),
	}}, nil
}
