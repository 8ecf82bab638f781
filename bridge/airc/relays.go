package airc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
)

// Assurance levels of a relay's author, as written into the signed envelope for the recipient.
const (
	assuranceRegistry   = "registry"   // signed by its registry
	assuranceVouched    = "vouched"    // unsigned, from a registry that the operator trusts without a signature
	assuranceUnverified = "unverified" // any host may have sent it
)

// Unverified implements [bridge.Registrar].
func (*Link) Unverified(handle string) string { return agents.Unverified + handle }

type relayed struct {
	origin, from, to string // domain, and handles without one
	id               string // local
	messageID        string // of this attempt
	body             string
	payload          json.RawMessage
	envelope         json.RawMessage // nil for none
	raw              []byte
	assurance        string
	peer             peers.Peer
}

func parseRelayed(o *wire.Object, raw []byte) (relayed, error) {
	m := relayed{
		origin: wire.LowerASCII(o.First("origin_registry")), messageID: o.First("message_id", "id"),
		body: o.First("body"), payload: o.Nested("payload"), envelope: o.Nested("envelope"), raw: raw,
	}
	if o.Err != nil {
		return m, o.Err
	}
	from := cmp.Or(o.First("from_address"), o.First("from"))
	if address, ok := wire.ParseAddress(from); ok {
		m.from, m.origin = address.Handle, cmp.Or(m.origin, address.Domain)
		if address.Domain != m.origin {
			return m, wire.Refuse(wire.CodeBadRequest, "from belongs to another registry than origin_registry")
		}
	} else {
		m.from = strings.TrimPrefix(from, "@")
	}
	m.to = strings.TrimPrefix(o.First("to"), "@")
	if address, ok := wire.ParseAddress(m.to); ok {
		m.to = address.Handle
	}
	if m.body == "" && m.payload != nil {
		if content, err := wire.ParseObject(m.payload); err == nil {
			m.body = content.First("content", "text")
		}
	}
	switch {
	case m.origin == "":
		return m, wire.Refuse(wire.CodeBadRequest, "Missing origin_registry")
	case !wire.ValidDomain(m.origin):
		return m, wire.Refuse(wire.CodeBadRequest, "origin_registry is not a host name")
	case !wire.WellFormed(m.from) || !wire.WellFormed(m.to):
		return m, wire.Refuse(wire.CodeBadRequest, "Invalid handle format")
	case m.body == "" && m.payload == nil:
		return m, wire.Refuse(wire.CodeBadRequest, "Missing body")
	}
	m.id = relayID(o, m)
	return m, nil
}

// relayID is stable across attempts if the registry sends an ID. The ID in the agent's envelope takes
// precedence.
func relayID(o *wire.Object, m relayed) string {
	var signed struct {
		ID string `json:"id"`
	}
	_ = federation.DecodeJSON(m.envelope, &signed) // validated later
	for _, id := range []string{signed.ID, o.First("idempotency_key"), m.messageID} {
		if len(id) >= 8 && len(id) <= 128 && strings.Trim(id, wire.IDChars) == "" {
			return id
		}
	}
	return wire.NewMessageID("rly_")
}

func (l *Link) postRelay(c *call) (answer, error) {
	c.Request = c.WithContext(bridge.WithSubnet(c.Context(), netip.Prefix{})) // the address of the registry is not the agent's
	a, err := l.takeRelay(c)
	return a, federationRefusal(err)
}

func federationRefusal(err error) error {
	p, ok := errors.AsType[*wire.ProblemError](err)
	if !ok {
		return err
	}
	said := *p
	switch p.Code { //nolint:exhaustive // the other codes do not change
	case wire.CodeConsentBlocked:
		said.Code = wire.CodeRemoteConsentBlocked
	case wire.CodeIdentityNotFound:
		said.Code = wire.CodeRemoteIdentityNotFound
	}
	return &said
}

func (l *Link) takeRelay(c *call) (answer, error) {
	now := time.Now()
	o, raw, err := l.readSigned(c)
	if err != nil {
		return answer{}, err
	}
	m, err := parseRelayed(o, raw)
	if err != nil {
		return answer{}, err
	}
	if err := l.checkBlocked(c.Context(), wire.Address{Handle: m.from, Domain: m.origin}.String()); err != nil {
		return answer{}, err
	}
	if err := l.admitRelay(c, o, &m, now); err != nil {
		return answer{}, err
	}
	if m.assurance != assuranceUnverified {
		l.peers.Heard(m.origin)
	}
	if again, err := l.relayedBefore(c.Context(), m, now); err != nil || again.body != nil {
		return again, err
	}
	if m.assurance == assuranceUnverified {
		return l.holdUnverified(c.Context(), m, now)
	}
	return l.postRelayed(c.Context(), m, now)
}

func (m relayed) sender() string {
	address := wire.Address{Handle: m.from, Domain: m.origin}.String()
	if m.assurance == assuranceUnverified {
		return agents.Unverified + address
	}
	return address
}

// relayedBefore recognizes a repeat even though each attempt has another ID.
func (l *Link) relayedBefore(ctx context.Context, m relayed, now time.Time) (answer, error) {
	sent, err := l.deps.Record.Sent(ctx, m.sender(), m.id, now.Add(-agents.MessageIDWindow))
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, nil
	case err != nil:
		return answer{}, fmt.Errorf("look up message: %w", err)
	}
	if !m.saidBefore(sent) {
		return answer{}, wire.Refuse(wire.CodeDuplicateMessage, "this id was used in the last 24 hours, for another message")
	}
	if m.assurance == assuranceUnverified && sent.Seq > 0 { // the record may have failed in between
		if err := l.show(ctx, sent, now); err != nil {
			return answer{}, unreached(err)
		}
	}
	a := l.answerRelayed(m, posted{ID: m.id, Seq: sent.Seq}, now)
	if said, ok := a.body.(wire.Members); ok {
		said["deduplicated"] = true
	}
	return a, nil
}

// saidBefore ignores IDs and times, which differ between attempts.
func (m relayed) saidBefore(sent agents.Message) bool {
	var before struct {
		To      string          `json:"to"`
		Body    string          `json:"body"`
		Payload json.RawMessage `json:"payload"`
		Origin  origin          `json:"origin"`
	}
	return federation.DecodeJSON(sent.Envelope, &before) == nil && before.To == m.to && before.Body == m.body &&
		sameJSON(before.Payload, m.payload) && sameJSON(before.Origin.Envelope, m.envelope)
}

// answerRelayed uses status 201: deployed registries treat only that as success.
func (l *Link) answerRelayed(m relayed, done posted, now time.Time) answer {
	said := wire.Members{
		"success": true, "assurance": m.assurance, "message": wire.Members{
			"id": m.id, "from": wire.Address{Handle: m.from, Domain: m.origin}.String(), "to": m.to, "body": m.body, "federated": true,
			"thread_id": threadID(m.sender(), m.to), "origin_registry": m.origin, "receiving_registry": l.domain, "created_at": wire.ISOTime(now),
		},
	}
	if done.Handoff != nil {
		said["handoff"] = done.Handoff
	}
	if done.Seq == 0 {
		said["held"], said["consent_status"] = true, agents.ConsentPending
		return answer{status: http.StatusAccepted, body: said}
	}
	return answer{status: http.StatusCreated, body: said}
}

type origin struct {
	Registry  string          `json:"registry"`
	MessageID string          `json:"message_id,omitempty"`
	Envelope  json.RawMessage `json:"envelope,omitempty"`
}

func (l *Link) sealRelayed(ctx context.Context, m relayed, now time.Time) (agents.Message, error) {
	return l.sign(ctx, outgoing{
		ID: m.id, From: m.sender(), To: m.to, Body: m.body, Payload: m.payload, Assurance: m.assurance,
		Origin: &origin{m.origin, m.messageID, m.envelope},
	}, now)
}

func (l *Link) postRelayed(ctx context.Context, m relayed, now time.Time) (answer, error) {
	sender, err := l.acquaint(ctx, m.sender(), now)
	if err != nil {
		return answer{}, err
	}
	sealed, err := l.sealRelayed(ctx, m, now)
	if err != nil {
		return answer{}, err
	}
	d := l.sealedDelivery(sender, sealed, envelope{to: m.to, body: m.body, payload: m.payload}, now)
	_, done, err := l.dispatchCharged(ctx, d)
	if err != nil {
		return answer{}, err
	}
	if done.Status == "delivered" && done.Seq == 0 {
		done.Seq = 1
	}
	return l.answerRelayed(m, done, now), nil
}

// acquaint gives an agent of another registry a DID whose key this gateway keeps.
func (l *Link) acquaint(ctx context.Context, address string, now time.Time) (agents.Agent, error) {
	agent, err := l.deps.Record.Agent(ctx, address)
	if err == nil || !errors.Is(err, federation.ErrNotFound) {
		return agent, err
	}
	agent = l.stranger(address, now)
	err = l.addAgent(ctx, agent, federation.Session{}, now)
	if errors.Is(err, federation.ErrTaken) { // by a concurrent request
		return l.deps.Record.Agent(ctx, address)
	}
	if err != nil {
		return agent, fmt.Errorf("add agent %s: %w", address, err)
	}
	return agent, nil
}

func (l *Link) stranger(address string, now time.Time) agents.Agent {
	kept := l.kept(address)
	return agents.Agent{
		Handle: address, DID: kept.DID, OwnDID: kept.DID, KeptKey: kept.Public, Registered: now,
		Shows: agents.Shows{Presence: agents.VisibleNone, Context: agents.VisibleNone},
	}
}

// postFederationConsent requires the signature of the remote agent's registry.
func (l *Link) postFederationConsent(c *call) (answer, error) {
	now := time.Now()
	o, raw, err := l.readSigned(c)
	if err != nil {
		return answer{}, err
	}
	action := strings.TrimPrefix(o.First("type", "action"), "consent:")
	from, fromOK := wire.ParseAddress(o.First("from"))
	to, toOK := wire.ParseAddress(o.First("to"))
	if !fromOK || !toOK || to.Domain != l.domain {
		return answer{}, wire.Refuse(wire.CodeBadRequest, "from and to are addresses, and to is of this registry")
	}
	if err := l.checkBlocked(c.Context(), from.String()); err != nil {
		return answer{}, err
	}
	cfg, err := l.peers.AdmitOrigin(c.Request, from.Domain)
	if err != nil {
		return answer{}, err
	}
	m := relayed{origin: from.Domain, from: from.Handle, to: to.Handle, raw: raw}
	if o.First(peers.SignatureMember) != "" {
		err = l.admitSigned(c, o, &m, cfg, now)
	}
	if err != nil {
		return answer{}, err
	}
	if m.assurance != assuranceRegistry {
		return answer{}, wire.Refuse(wire.CodeInvalidRegistrySignature, "consent must be signed by its registry")
	}
	edge, err := l.takeConsent(c.Context(), action, m, wire.Cut(o.First("message"), maxKnockChars), now)
	if err != nil {
		return answer{}, federationRefusal(err)
	}
	return answer{status: http.StatusOK, body: wire.Members{"success": true, "status": edge.State, "version": edge.Version}}, nil
}

func (l *Link) takeConsent(ctx context.Context, action string, m relayed, message string, now time.Time) (agents.Consent, error) {
	who, err := known(l.find(ctx, m.to))
	if err != nil {
		return agents.Consent{}, err
	}
	agent, err := l.acquaint(ctx, wire.Address{Handle: m.from, Domain: m.origin}.String(), now)
	if err != nil {
		return agents.Consent{}, err
	}
	switch action {
	case actionRequest:
		return l.decideDeployed(ctx, agent, who, action, message, now)
	case actionAccept:
		// Only its recipient here can open the reverse edge.
		return l.deps.Record.AcceptOneWay(ctx, who.handle, agent.Handle, now)
	case actionBlock:
		return l.deps.Record.Block(ctx, who.handle, agent.Handle, now)
	case actionUnblock:
		return l.deps.Record.Unblock(ctx, who.handle, agent.Handle, now)
	}
	return agents.Consent{}, wire.Refuse(wire.CodeBadRequest, "type is not request, accept, block or unblock")
}

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
	_, err = l.peers.Identity(c.Context(), m.origin, m.from, now) // unconfigured registry: it must confirm the sender
	return err
}

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
		m.assurance = assuranceUnverified // the operator overrides the signature
	}
	return l.verifyEnvelope(c.Context(), *m)
}

// checkAttempt binds a signed relay to this registry and the current time, to prevent replays.
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

// checkEnvelope returns nil for a relay without an envelope. The audience of an envelope is the registry
// of its agent.
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
		return nil, wire.Refuse(wire.CodeBadRequest, "the envelope belongs to another message")
	case to != m.to && to != (wire.Address{Handle: m.to, Domain: l.domain}).String():
		return nil, wire.Refuse(wire.CodeBadRequest, "the envelope is for another recipient")
	}
	return &e, nil
}

// verifyEnvelope relies on the registry's signature if the agent's key is unavailable now.
func (l *Link) verifyEnvelope(ctx context.Context, m relayed) error {
	e, err := l.checkEnvelope(m)
	if err != nil || e == nil {
		return err
	}
	keys, err := l.peers.AgentKeys(ctx, m.peer, m.from)
	i := slices.IndexFunc(keys, func(key agents.Key) bool { return key.ID == e.kid })
	if err != nil || i < 0 {
		return nil //nolint:nilerr // unavailable now, or signed by the registry for the agent, or by a key that has ended
	}
	verdict, err := signing.VerifyEnvelope(e.raw, e.signature, keys[i].Public)
	if err != nil || verdict != federation.Valid {
		return wire.Refuse(wire.CodeInvalidSignature, "the agent's signature does not match its envelope")
	}
	return nil
}

// statusQueued means that the recipient's registry has not accepted the message yet.
const statusQueued = "queued"

// postToRemote also accepts the agent for the sender. The remote registry applies the agent's consent,
// and the sender gets a notice of the outcome.
func (l *Link) postToRemote(ctx context.Context, d *inbound, domain string) (answer, error) {
	if reason, unverified := writeInstead(d.recipient.handle); unverified {
		return answer{}, wire.Refuse(wire.CodeIdentityNotFound, reason)
	}
	if _, federated := l.peers.Exchanges(domain); !federated {
		return answer{}, peers.ErrBlocked()
	}
	if _, fromElsewhere := wire.SplitAddress(d.from); fromElsewhere {
		return answer{}, wire.Refuse(wire.CodeIdentityNotFound, "messages are not forwarded from one registry to another")
	}
	agent, err := l.acquaint(ctx, d.recipient.handle, d.received)
	if err != nil {
		return answer{}, err
	}
	d.recipient.agent = &agent
	var step *filed
	s, err := l.readStep(ctx, d)
	switch {
	case err == nil:
		step, err = l.submit(ctx, d, s)
	case errors.Is(err, errPlain):
		err = l.charge(ctx, d)
	}
	if err != nil {
		return answer{}, err
	}
	if err := l.befriend(ctx, d.recipient.handle, d.from, d.received); err != nil {
		return answer{}, err
	}
	p := agents.Posting{Message: d.message(step)}
	if p.Relay, err = l.peers.Relay(d.recipient.handle, p.Message, d.body, d.payload); err != nil {
		return answer{}, err
	}
	if _, err := l.put(ctx, p); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusAccepted, body: posted{ID: d.id, Status: statusQueued, Handoff: step}}, nil
}
