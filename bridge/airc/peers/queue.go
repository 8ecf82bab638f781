package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/identity"
)

type consentDocument struct {
	Type      string `json:"type"`
	From      string `json:"from"`
	To        string `json:"to"`
	ToAddress string `json:"to_address"`
}

// ShareDecision queues an agent's decision in the lane of its messages to that handle, so that they arrive
// in order. After a nil error, the decision is on disk.
func (ps *Registries) ShareDecision(ctx context.Context, action string, edge agents.Consent, agent agents.Agent, now time.Time) error {
	address, ok := wire.ParseAddress(edge.From)
	if !ok {
		return nil
	}
	if _, federated := ps.Exchanges(address.Domain); !federated {
		return nil
	}
	text, err := wire.Marshal(consentDocument{
		Type: action, From: "@" + agent.Handle + "@" + ps.deps.Domain, To: "@" + address.String(), ToAddress: "@" + address.String(),
	})
	if err != nil {
		return fmt.Errorf("write decision about %s: %w", address, err)
	}
	err = ps.deps.Record.Enqueue(ctx, federation.PeerDelivery{
		Kind: federation.DecisionDelivery, Peer: address.Domain, Sender: agent.Handle, Message: fmt.Sprintf("consent %s %d", action, edge.Version),
		OrderKey: lane(agent.Handle, address.Handle), Document: text, Queued: now,
	})
	if err != nil {
		return err
	}
	ps.deps.PubSub.Wake(bridge.RelayTopic)
	return nil
}

// relayDocument serves all dialects: deployed registries ignore the later members.
type relayDocument struct {
	Origin  string          `json:"origin_registry"`
	From    string          `json:"from"`
	To      string          `json:"to"`
	Body    string          `json:"body"`
	Payload json.RawMessage `json:"payload"`

	Version     string          `json:"protocol_version"`
	FromAddress string          `json:"from_address"`
	ToAddress   string          `json:"to_address"`
	Key         string          `json:"idempotency_key"` // stable across attempts
	Envelope    json.RawMessage `json:"envelope"`        // signed by the agent
}

// Relay returns the queue item for the registry of a recipient.
func (ps *Registries) Relay(to string, m agents.Message, body string, payload json.RawMessage) (*federation.PeerDelivery, error) {
	address, ok := wire.ParseAddress(to)
	if !ok {
		return nil, fmt.Errorf("relay to %q: no address", to)
	}
	text, err := json.Marshal(relayDocument{
		Origin: ps.deps.Domain, From: m.From, To: address.Handle, Body: relayBody(body, payload), Payload: wire.OrNull(payload),
		Version: wire.ProtocolVersion, FromAddress: "@" + m.From + "@" + ps.deps.Domain, ToAddress: "@" + address.String(),
		Key: m.ID, Envelope: m.Envelope,
	})
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", address, err)
	}
	return &federation.PeerDelivery{
		Peer: address.Domain, Sender: m.From, Message: m.ID, OrderKey: lane(m.From, address.Handle),
		Document: text, Handoff: m.Handoff, Queued: m.Received,
	}, nil
}

func lane(from, to string) string { return from + " " + to }

// relayBody is needed because deployed registries require a text of limited length.
func relayBody(body string, payload json.RawMessage) string {
	if body == "" {
		var typed struct {
			Type string `json:"type"`
		}
		_ = federation.DecodeJSON(payload, &typed) // a missing type is empty
		body = "(" + cmp.Or(typed.Type, "no text") + ")"
	}
	return wire.Cut(body, wire.MaxTextChars)
}

// deliver sends one document; unknown explains a missing description of the registry.
func (ps *Registries) deliver(ctx context.Context, p Peer, unknown error, row federation.PeerDelivery) error {
	if _, federated := ps.Exchanges(row.Peer); !federated {
		return &federation.DeadLetterError{Reason: federation.DeadRefused, Why: string(wire.CodeFederationBlocked)}
	}
	if unknown != nil {
		return &delivery.LaterError{Away: true, Unsure: row.Unsure, Err: errors.New("its well-known document cannot be read")}
	}
	id := cmp.Or(row.Unsure, wire.NewMessageID("msg_"))
	became := ps.attempt(ctx, p, row, id)
	if ctx.Err() == nil {
		ps.deps.Metrics.Relays.WithLabelValues(ps.peerLabel(row.Peer), became.outcome()).Inc()
	}
	later := &delivery.LaterError{Away: became.away, Pause: became.pause, TooMuch: became.tooMuch, Err: errors.New(became.reason)}
	if became.unsure {
		later.Unsure = id
	}
	switch {
	case became.delivered, became.reason == "deduplicated" && row.Unsure != "": // the unanswered attempt arrived
		return nil
	case became.dead:
		return &federation.DeadLetterError{Reason: federation.DeadRefused, Why: became.reason}
	case !became.away && !became.consent:
		later.Wait = firstPause
	}
	return later
}

func (ps *Registries) attempt(ctx context.Context, p Peer, row federation.PeerDelivery, id string) fate {
	now, isDecision := time.Now(), row.Kind == federation.DecisionDelivery
	if isDecision && p.key == nil {
		return fate{delivered: true} // a registry without signatures does not need it
	}
	path := p.paths.relay
	if isDecision {
		path = federatedConsentPath
	}
	address, err := p.at(path, nil)
	if err != nil {
		return fate{reason: err.Error()}
	}
	var document map[string]json.RawMessage
	if federation.DecodeJSON(row.Document, &document) != nil || document == nil {
		return fate{dead: true, reason: "its document cannot be read"}
	}
	if document["timestamp"] = wire.JSONString(wire.ISOTime(now)); !isDecision {
		document["message_id"] = wire.JSONString(id)
	}
	body, err := ps.sign(ctx, document)
	if err != nil {
		return fate{reason: err.Error()}
	}
	if err := ps.deps.Record.Attempted(ctx, row.Row, id, now); err != nil {
		return fate{away: true, reason: err.Error()}
	}
	reply, err := ps.push(ctx, p, address, body)
	if err != nil {
		return fate{away: true, unsure: true, reason: "it did not answer"}
	}
	if isDecision && reply.Status < http.StatusMultipleChoices && json.Valid(reply.Body) {
		return fate{delivered: true} // whatever the content
	}
	return readReply(reply, p.dialect)
}

// ended does not report the result of a decision, because this registry enforces the decision anyway.
func (ps *Registries) ended(ctx context.Context, row federation.PeerDelivery, how federation.Settlement) {
	if row.Kind == federation.DecisionDelivery {
		return
	}
	if how.Outcome() != federation.DeliveryDelivered {
		ps.noteRelay(ctx, ps.deps.Notify(ctx, row, noticeUndeliverable, how.Why, how.At))
		return
	}
	if m, err := ps.deps.Record.Sent(ctx, row.Sender, row.Message, time.Time{}); err == nil && !m.Event.IsZero() {
		if agent, err := ps.deps.Record.Agent(ctx, m.To); err == nil {
			ps.noteRelay(ctx, ps.deps.Record.Read(ctx, agent.DID, []federation.EventID{m.Event}, how.At))
		}
	}
	if row.Delayed {
		ps.noteRelay(ctx, ps.deps.Notify(ctx, row, noticeDelivered, "", how.At))
	}
}

func (ps *Registries) noteRelay(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		ps.deps.Log.LogAttrs(ctx, slog.LevelError, "relay attempt not recorded", slog.String("network", wire.Network), slog.String("link", wire.Network), slog.Any("err", err))
	}
}

type fate struct {
	delivered bool
	dead      bool          // never retry; reason has the cause
	away      bool          // the registry does not respond now
	unsure    bool          // no response: the registry may have accepted the message
	pause     time.Duration // requested retry delay
	tooMuch   bool          // rate limited because of earlier messages
	consent   bool          // the agent has not consented yet
	reason    string
}

func (f fate) outcome() string {
	switch {
	case f.delivered:
		return "delivered"
	case f.dead:
		return "refused"
	case f.away:
		return "away"
	case f.consent:
		return "consent"
	}
	return "again"
}

// readReply treats any response of a deployed registry other than 201 as undelivered, because it marks an
// ID as seen before it judges the message.
func readReply(reply identity.Answer, dialect string) fate {
	var said struct {
		Error        string `json:"error"`
		Deduplicated bool   `json:"deduplicated"`
		Status       string `json:"consent_status"`
	}
	readable := federation.DecodeJSON(reply.Body, &said) == nil
	reason := fmt.Sprintf("%d %s", reply.Status, said.Error)
	switch {
	case reply.Status == http.StatusCreated:
		return fate{delivered: true}
	case reply.Status == http.StatusTooManyRequests, reply.Status >= http.StatusInternalServerError, !readable:
		return fate{away: true, pause: reply.RetryAfter, tooMuch: reply.Status == http.StatusTooManyRequests, reason: reason}
	case reply.Status == http.StatusAccepted && dialect != DialectD3:
		return fate{delivered: true} // held there, and delivered from there
	case reply.Status < http.StatusBadRequest && said.Deduplicated:
		return fate{reason: "deduplicated"}
	case reply.Status < http.StatusBadRequest, reply.Status == http.StatusUnauthorized && said.Error == string(wire.CodeInvalidTimestamp):
		return fate{reason: reason}
	case said.Error == string(wire.CodeRemoteConsentRequired), said.Error == "consent_required", said.Error == "consent_pending",
		reply.Status == http.StatusForbidden && said.Status == "pending":
		return fate{consent: true, reason: reason}
	}
	return fate{dead: true, reason: reason}
}
