package airc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
)

// relayDocument is a message for another registry, but for what each attempt adds. One
// document is for registries of all dialects: the deployed ones read the first members
// and pass over the rest.
type relayDocument struct {
	Origin  string          `json:"origin_registry"`
	From    string          `json:"from"`
	To      string          `json:"to"`
	Body    string          `json:"body"`
	Payload json.RawMessage `json:"payload"`

	Version     string          `json:"protocol_version"`
	FromAddress string          `json:"from_address"`
	ToAddress   string          `json:"to_address"`
	Key         string          `json:"idempotency_key"` // the same for each attempt
	Envelope    json.RawMessage `json:"envelope"`        // as its agent signed it

	MessageID string `json:"message_id,omitempty"`
	Timestamp string `json:"timestamp,omitempty"`
}

// relayTo returns what is queued for the registry of a recipient.
func (l *Link) relayTo(to string, m agents.Message, body string, payload json.RawMessage) (*federation.PeerDelivery, error) {
	address, ok := parseAddress(to)
	if !ok {
		return nil, fmt.Errorf("relay to %q: no address", to)
	}
	text, err := json.Marshal(relayDocument{
		Origin: l.domain, From: m.From, To: address.handle, Body: relayBody(body, payload), Payload: orJSONNull(payload),
		Version: protocolVersion, FromAddress: "@" + m.From + "@" + l.domain, ToAddress: "@" + address.String(),
		Key: m.ID, Envelope: m.Envelope,
	})
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", address, err)
	}
	return &federation.PeerDelivery{
		Peer: address.domain, Sender: m.From, Message: m.ID, OrderKey: lane(m.From, address.handle),
		Document: text, Handoff: m.Handoff, Queued: m.Received,
	}, nil
}

// lane names what one handle here owes to one at a registry: it arrives in order.
func lane(from, to string) string { return from + " " + to }

// relayBody returns the text of a relay: deployed registries want one, and no longer
// one than this.
func relayBody(body string, payload json.RawMessage) string {
	if body == "" {
		var typed struct {
			Type string `json:"type"`
		}
		_ = federation.DecodeJSON(payload, &typed) // no type is an empty type
		body = "(" + cmp.Or(typed.Type, "no text") + ")"
	}
	return cut(body, maxTextChars)
}

// pass does what is to be done about one row of a visit, and reports whether the visit
// is over by that, and because the registry is away.
func (l *Link) pass(ctx context.Context, r *round, row federation.PeerDelivery) (over, away bool) {
	now := time.Now()
	if now.Sub(row.Queued) > relayLife {
		l.giveUp(ctx, row, fate{dead: true, expired: true, reason: cmp.Or(row.Reason, "it did not answer for a week")}, now)
		return false, false
	}
	if _, federated := l.peerConfig(r.name); !federated {
		l.giveUp(ctx, row, fate{dead: true, reason: string(codeFederationBlocked)}, now)
		return false, false
	}
	if r.err != nil {
		r.again = l.postpone(ctx, row, fate{away: true, reason: "its well-known document cannot be read"}, row.Unsure, now)
		return true, true
	}
	if l.waits(r, row, now) {
		return false, false
	}
	if wait := l.peers.pace(r.name, r.peer.perMin).Take(now); wait > 0 {
		r.again = now.Add(wait)
		return true, false
	}
	next, gone, away := l.deliver(ctx, r.peer, row)
	if away {
		r.again = next
		return true, true
	}
	if !gone {
		r.waits[row.OrderKey] = true
	}
	return false, false
}

// deliver sends one message and notes what became of it: gone is one that nothing is
// owed for any more.
func (l *Link) deliver(ctx context.Context, p peer, row federation.PeerDelivery) (next time.Time, gone, away bool) {
	id := cmp.Or(row.Unsure, newMessageID("msg_"))
	became := l.attempt(ctx, p, row, id)
	now := time.Now()
	if ctx.Err() == nil {
		l.deps.Metrics.Relays.WithLabelValues(l.peerLabel(row.Peer), became.outcome()).Inc()
	}
	switch {
	case ctx.Err() != nil && !became.delivered:
		return now, false, false
	case became.reason == "deduplicated" && row.Unsure != "":
		became.delivered = true // the attempt that was not answered had arrived
	}
	switch {
	case became.delivered:
		l.peers.pace(p.Domain, p.perMin).Took(now)
		l.arrived(ctx, row, now)
		return now, true, false
	case became.dead:
		l.giveUp(ctx, row, became, now)
		return now, true, false
	}
	if became.tooMuch {
		l.peers.pace(p.Domain, p.perMin).TooMuch(now, became.pause)
	}
	unsure := ""
	if became.unsure {
		unsure = id
	}
	return l.postpone(ctx, row, became, unsure, now), false, became.away
}

// errUnreadableRow is returned for what is queued and cannot be read.
var errUnreadableRow = errors.New("its document cannot be read")

// attempt sends a message or a decision once, under an id.
func (l *Link) attempt(ctx context.Context, p peer, row federation.PeerDelivery, id string) fate {
	now := time.Now()
	path, dress, read := p.paths.relay, l.dressMessage(id), readReply
	if row.Kind == federation.DecisionDelivery {
		if p.key == nil {
			return fate{delivered: true} // one that signs nothing has no place for it
		}
		path, dress, read = federatedConsentPath, l.dressDecision, readDecided
	}
	address, err := p.at(path, nil)
	if err != nil {
		return fate{reason: err.Error()}
	}
	body, err := dress(ctx, row, now)
	if errors.Is(err, errUnreadableRow) {
		return fate{dead: true, reason: err.Error()}
	}
	if err != nil {
		return fate{reason: err.Error()}
	}
	if err := l.deps.Record.Attempted(ctx, row.Row, id, now); err != nil {
		return fate{away: true, reason: err.Error()}
	}
	reply, err := l.push(ctx, p, address, body)
	if err != nil {
		return fate{away: true, unsure: true, reason: "it did not answer"}
	}
	return read(reply, p.dialect)
}

// dressMessage returns what makes of a row the message that is sent now, under an id.
func (l *Link) dressMessage(id string) func(context.Context, federation.PeerDelivery, time.Time) ([]byte, error) {
	return func(ctx context.Context, row federation.PeerDelivery, now time.Time) ([]byte, error) {
		var doc relayDocument
		if err := federation.DecodeJSON(row.Document, &doc); err != nil {
			return nil, errUnreadableRow
		}
		doc.MessageID, doc.Timestamp = id, isoTime(now)
		return l.signForPeers(ctx, doc)
	}
}

// postpone notes when a message is tried next.
func (l *Link) postpone(ctx context.Context, row federation.PeerDelivery, became fate, unsure string, now time.Time) time.Time {
	pause := became.pause
	switch {
	case became.consent:
		pause = pauseAfter(row.Attempt+1, firstConsent, longestConsent)
	case pause <= 0:
		pause = firstPause
	}
	next := now.Add(pause)
	l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "relay put off", slog.String("network", network), slog.String("link", network),
		slog.String("peer", row.Peer), slog.String("handoff_id", row.Handoff.String()), slog.Int("attempt", row.Attempt), slog.String("reason", became.reason))
	due := next
	if became.away {
		due = now // the registry waits as a whole
	}
	l.noteRelay(ctx, l.deps.Record.Postpone(ctx, row.Row, became.reason, unsure, now, due))
	return next
}

// arrived takes a message out that its registry has.
func (l *Link) arrived(ctx context.Context, row federation.PeerDelivery, now time.Time) {
	l.noteRelay(ctx, l.deps.Record.PeerTook(ctx, row.Row, now))
	if row.Kind == federation.DecisionDelivery {
		return
	}
	if m, err := l.deps.Record.Sent(ctx, row.Sender, row.Message, time.Time{}); err == nil && !m.Event.IsZero() {
		if agent, err := l.deps.Record.Agent(ctx, m.To); err == nil {
			l.noteRelay(ctx, l.deps.Record.Read(ctx, agent.DID, []federation.EventID{m.Event}, now))
		}
	}
	if row.Delayed {
		l.noteRelay(ctx, l.notify(ctx, row, noticeDelivered, "", now))
	}
}

// giveUp keeps a message that will never arrive, and tells its sender.
func (l *Link) giveUp(ctx context.Context, row federation.PeerDelivery, became fate, now time.Time) {
	l.noteRelay(ctx, l.deps.Record.Bury(ctx, row.Row, became.ended(), became.reason, now))
	l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "relay given up", slog.String("network", network), slog.String("link", network),
		slog.String("peer", row.Peer), slog.String("handoff_id", row.Handoff.String()), slog.Int("attempt", row.Attempt), slog.String("reason", became.reason))
	if row.Kind == federation.MessageDelivery { // the result of a decision is not reported: this registry holds messages to it anyway
		l.noteRelay(ctx, l.notify(ctx, row, noticeUndeliverable, became.reason, now))
	}
}

// noteRelay logs what of a relay could not be written down.
func (l *Link) noteRelay(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelError, "relay not noted", slog.String("network", network), slog.String("link", network), slog.Any("err", err))
	}
}

// fate is what became of an attempt.
type fate struct {
	delivered bool
	dead      bool          // never again; reason says why
	expired   bool          // because it waited too long
	away      bool          // the registry answers no request now
	unsure    bool          // it did not answer, and may have taken the message
	pause     time.Duration // when it says itself when to come again
	tooMuch   bool          // it took what came before for too much
	consent   bool          // its agent has not consented yet
	reason    string
}

// outcome is the word for an attempt in the counter.
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

// ended returns why a message was given up.
func (f fate) ended() federation.DeadReason {
	if f.expired {
		return federation.DeadExpired
	}
	return federation.DeadRefused
}

// readReply tells what a registry made of a message. A deployed one marks an id as
// seen before it judges: whatever it says but 201, nothing is delivered.
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
	case reply.Status == http.StatusAccepted && dialect != dialectD3:
		return fate{delivered: true} // it is held there, and delivered from there
	case reply.Status < http.StatusBadRequest && said.Deduplicated:
		return fate{reason: "deduplicated"}
	case reply.Status < http.StatusBadRequest, reply.Status == http.StatusUnauthorized && said.Error == string(codeInvalidTimestamp):
		return fate{reason: reason}
	case said.Error == string(codeRemoteConsentRequired), said.Error == "consent_required", said.Error == "consent_pending",
		reply.Status == http.StatusForbidden && said.Status == "pending":
		return fate{consent: true, reason: reason}
	}
	return fate{dead: true, reason: reason}
}

// statusQueued is told of a message that its recipient's registry has still to take.
const statusQueued = "queued"

// postToRemote files a message to an agent of another registry and queues it for that
// registry, which applies the consent of the agent. The sender thereby accepts the agent, as
// with a DID of another network, and gets a notice of its outcome.
func (l *Link) postToRemote(ctx context.Context, d *delivery, domain string) (answer, error) {
	if reason, unverified := writeInstead(d.recipient.handle); unverified {
		return answer{}, refuse(codeIdentityNotFound, reason)
	}
	if _, federated := l.peerConfig(domain); !federated {
		return answer{}, errBlocked()
	}
	if _, fromElsewhere := splitAddress(d.from); fromElsewhere {
		return answer{}, refuse(codeIdentityNotFound, "messages are not passed on from one registry to another")
	}
	agent, err := l.acquaint(ctx, d.recipient.handle, d.received)
	if err != nil {
		return answer{}, err
	}
	d.recipient.agent = &agent
	step, err := l.stepOf(ctx, d)
	if err != nil {
		return answer{}, err
	}
	if err := l.befriend(ctx, d.recipient.handle, d.from, d.received); err != nil {
		return answer{}, err
	}
	p := agents.Posting{Message: d.message(step)}
	if p.Relay, err = l.relayTo(d.recipient.handle, p.Message, d.body, d.payload); err != nil {
		return answer{}, err
	}
	if _, err := l.put(ctx, p); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusAccepted, body: posted{ID: d.id, Status: statusQueued, Handoff: step}}, nil
}

// stepOf files the step of a message to an agent, nil where the message is none.
func (l *Link) stepOf(ctx context.Context, d *delivery) (*filed, error) {
	s, err := l.readStep(ctx, d)
	switch {
	case err == nil:
		return l.submit(ctx, d, s)
	case errors.Is(err, errPlain):
		return nil, l.charge(ctx, d)
	}
	return nil, err
}

// relayStep queues what an agent of another registry is told of a step.
func (l *Link) relayStep(p *agents.Posting, body string, payload any) error {
	if _, isRemote := splitAddress(p.Message.To); !isRemote {
		return nil
	}
	text, err := marshal(payload)
	if err != nil {
		return fmt.Errorf("relay step: %w", err)
	}
	p.Relay, err = l.relayTo(p.Message.To, p.Message, body, text)
	return err
}
