package airc

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"baton/bridge/airc/peers"
	"baton/bridge/airc/wire"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// admitRelay finds out how sure the origin of a relay is, and refuses one that is too many
// or that contradicts itself.
func (l *Link) admitRelay(c *call, o *wire.Object, m *relayed, now time.Time) error {
	cfg, err := l.peers.AdmitOrigin(c.Request, m.origin)
	if err != nil {
		return err
	}
	if o.First(peers.SignatureMember) != "" {
		return l.admitSigned(c, o, m, cfg, now)
	}
	vouched, err := l.peers.AdmitUnsigned(c.Request, cfg, now)
	if err != nil {
		return err
	}
	m.assurance = assuranceUnverified
	if vouched {
		m.assurance = assuranceVouched
	}
	if _, err := l.checkEnvelope(*m); err != nil {
		return err
	}
	if l.peers.Configured(m.origin) {
		return nil
	}
	_, err = l.peers.Identity(c.Context(), m.origin, m.from, now) // no operator named this registry: it must have the sender
	return err
}

// admitSigned finds out whether a registry signed a message for this registry, and how sure
// that makes its author.
func (l *Link) admitSigned(c *call, o *wire.Object, m *relayed, cfg peers.Config, now time.Time) error {
	var err error
	if m.peer, err = l.peers.AdmitSigned(c.Context(), cfg, m.raw, o.First(peers.SignatureMember), credential.AddressOf(c.Request), now); err != nil {
		return err
	}
	if err := l.checkAttempt(o, now); err != nil {
		return err
	}
	m.assurance = assuranceRegistry
	if cfg.Mode == peers.ModeHold {
		m.assurance = assuranceUnverified // whatever the signature says, the operator wants it so
	}
	return l.verifyEnvelope(c.Context(), *m)
}

// checkAttempt binds a signed relay to this registry and to now: another registry that
// read it could send it on.
func (l *Link) checkAttempt(o *wire.Object, now time.Time) error {
	to, bound := wire.ParseAddress(cmp.Or(o.First("to_address"), o.First("to")))
	switch {
	case !bound || to.Domain != l.domain:
		return wire.Refuse(wire.CodeAudienceMismatch, "a signed relay names its recipient with the domain of this registry")
	case now.Sub(o.Time("timestamp")).Abs() > wire.ClockSkew:
		return wire.Refuse(wire.CodeInvalidTimestamp, "timestamp is more than 300 seconds from the clock here")
	}
	return nil
}

// checkEnvelope refuses a relay whose agent signed another message, or the message for
// another agent. It returns nil for a relay without an envelope. The audience of the
// envelope is the registry of its agent.
func (l *Link) checkEnvelope(m relayed) (*envelope, error) {
	if m.envelope == nil {
		return nil, nil //nolint:nilnil // deployed registries send none
	}
	e, err := parseEnvelope(m.envelope, false)
	if err != nil {
		return nil, err
	}
	switch to := strings.TrimPrefix(e.to, "@"); {
	case e.from != m.from || e.aud != m.origin || e.body != "" && e.body != m.body || !sameJSON(e.payload, m.payload):
		return nil, wire.Refuse(wire.CodeBadRequest, "the envelope is of another message")
	case to != m.to && to != (wire.Address{Handle: m.to, Domain: l.domain}).String():
		return nil, wire.Refuse(wire.CodeBadRequest, "the envelope is for another recipient")
	}
	return &e, nil
}

// verifyEnvelope checks the signature of an agent in a relay. Where its registry does not
// tell the agent's key now, the signature of the registry suffices: the registry vouches.
func (l *Link) verifyEnvelope(ctx context.Context, m relayed) error {
	e, err := l.checkEnvelope(m)
	if err != nil || e == nil {
		return err
	}
	keys, err := l.peers.AgentKeys(ctx, m.peer, m.from)
	i := slices.IndexFunc(keys, func(key agents.Key) bool { return key.ID == e.kid })
	if err != nil || i < 0 {
		return nil //nolint:nilerr // not told now; or signed by the registry for the agent, or by a key that has ended
	}
	verdict, err := signing.VerifyEnvelope(e.raw, e.signature, keys[i].Public)
	if err != nil || verdict != federation.Valid {
		return wire.Refuse(wire.CodeInvalidSignature, "the agent's signature does not match its envelope")
	}
	return nil
}
