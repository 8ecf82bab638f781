package airc

import (
	"encoding/json"
	"maps"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// Purposes of bound proofs. A signature for one purpose is invalid for the others.
const (
	purposeRegister = "register"
	purposeRotate   = "rotate"
	purposeRevoke   = "revoke"
)

// isBound reports whether a request claims to carry a proof that names this gateway.
func (o *object) isBound() bool { return o.has("aud") || o.has("purpose") }

// checkBound rejects a bound proof for another gateway, for another purpose, or with a timestamp
// outside the allowed skew.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) checkBound(o *object, purpose string, now time.Time) error {
	aud, named := o.text("aud"), o.text("purpose")
	var seconds int64
	if federation.DecodeJSON(o.members["timestamp"], &seconds) != nil {
		o.fail("timestamp is missing or not a whole number of seconds")
	}
	switch {
	case o.err != nil:
		return o.err
	case aud != l.domain:
		return refuse(codeAudienceMismatch, "aud is not "+l.domain)
	case named != purpose:
		return refuse(codeInvalidSignature, "purpose is not "+purpose)
	case now.Sub(time.Unix(seconds, 0)).Abs() > clockSkew:
		return refuse(codeInvalidTimestamp, "timestamp is more than 300 seconds from the clock here")
	}
	return nil
}

// boundDocument returns the document that a bound proof covers: the request, with defaults for the
// members that it omits.
func boundDocument(o *object, defaults map[string]string) []byte {
	members := map[string]json.RawMessage{}
	for name, text := range defaults {
		members[name] = jsonString(text)
	}
	maps.Copy(members, o.members)
	document, err := json.Marshal(members)
	if err != nil {
		panic("airc: a request that was read cannot be written: " + err.Error())
	}
	return document
}

// needBound is the refusal of a change whose signature names no gateway.
func needBound(c code, members string) error {
	return refuse(c, "a signature that names no registry is not enough: sign the JCS form of "+members+" (aud is this registry's domain)")
}

// Members covered by bound proofs.
const (
	boundRegistration = "aud, challenge, handle, publicKey, purpose, timestamp"
	boundRotation     = "aud, handle, newKid, newPublicKey, purpose, timestamp"
	boundRevocation   = "aud, handle, kid, purpose, reason, timestamp"
)

// authorized returns the key with which an agent signed a change of its keys. The signature is a
// bound proof over document, or a bare signature in a bound session.
//
// spec: airc-v0.1.1 §5.4; airc-shapes "Sessions and proofs"
func (l *Link) authorized(change keyChange, purpose, covered string, document []byte, bound signing.Scheme, bare ...signing.Scheme) (agents.Key, error) {
	signature := change.text("signature")
	switch {
	case change.err != nil:
		return agents.Key{}, change.err
	case !change.isBound():
		key, err := authority(change.agent, change.body, signature, change.now, bare...)
		if err == nil && !change.session.Bound {
			err = needBound(codeInvalidSignature, covered)
		}
		return key, err
	}
	if err := l.checkBound(change.object, purpose, change.now); err != nil {
		return agents.Key{}, err
	}
	if named := change.first("handle"); named != "" && named != change.agent.Handle {
		return agents.Key{}, refuse(codeInvalidSignature, "handle does not match the token")
	}
	return authority(change.agent, document, signature, change.now, bound)
}

// boundBy records that an agent made a bound proof, and ends the agent's sessions that began
// without one. The session of the request survives if it began with the same key.
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
