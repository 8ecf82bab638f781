package airc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
)

// When another registry is asked again.
const (
	relayEvery     = time.Second     // how often it is looked what is due
	relayRecheck   = 5 * time.Second // of what waits: a wake-up may have been lost
	firstPause     = time.Second     // after a registry did not answer; doubles
	longestPause   = time.Minute     // so that all is there within five minutes of its return
	firstConsent   = time.Minute     // after it refused for want of consent; doubles
	longestConsent = time.Hour       // it cannot tell when its agent consented
	delayNotice    = 5 * time.Minute // when a sender is told that it takes time
	relayLife      = 7 * 24 * time.Hour
)

// relayPage is how many rows of one registry are looked at together.
const relayPage = 200

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
		_ = json.Unmarshal(payload, &typed) // without a type there is none
		body = "(" + cmp.Or(typed.Type, "no text") + ")"
	}
	return cut(body, maxTextChars)
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
func readReply(reply Reply, dialect string) fate {
	var said struct {
		Error        string `json:"error"`
		Deduplicated bool   `json:"deduplicated"`
		Status       string `json:"consent_status"`
	}
	readable := json.Unmarshal(reply.Body, &said) == nil
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

// visited is a visit that is over.
type visited struct {
	peer string
	next time.Time // when to come again
	away bool      // the registry does not answer, which the record has
}

// couriers sends what is owed to other registries until ctx ends: to each registry one
// message after the other, to all of them at once. A registry that does not answer
// waits as the record says, also after a restart. What else a visit waits for is known
// in memory alone: after a restart a registry may be sent a minute's worth too early,
// which it refuses without having looked at it, and says when to come again.
func (l *Link) couriers(ctx context.Context) {
	next := map[string]time.Time{} // when to visit answering registries again
	busy := map[string]bool{}      // and whether something came since the visit began
	probes := map[string]bool{}    // waiting registries from which a message arrived
	done := make(chan visited)
	wake, stop := l.deps.Wakes.Subscribe(bridge.RelayTopic)
	defer stop()
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		for _, p := range l.owing(ctx, now) {
			waits := now.Before(next[p.Name]) || now.Before(p.Next) && !probes[p.Name]
			if _, there := busy[p.Name]; there || waits || l.withheld(ctx, p.Name) {
				continue
			}
			busy[p.Name] = false
			delete(probes, p.Name)
			go func() { done <- l.visit(ctx, p) }()
		}
		select {
		case r := <-done:
			next[r.peer] = r.next
			if busy[r.peer] && !r.away {
				delete(next, r.peer)
			}
			delete(busy, r.peer)
		case name := <-l.peers.heard: // one visit, whatever it failed at before
			probes[name] = true
			delete(next, name)
		case <-wake:
			clear(next)
			for name := range busy {
				busy[name] = true
			}
		case <-tick.C:
		case <-ctx.Done():
			for range busy {
				<-done
			}
			return
		}
	}
}

// owing returns the registries that something is owed to, and tells the senders of
// what takes long.
func (l *Link) owing(ctx context.Context, now time.Time) []federation.PeerOutbox {
	peers, err := l.deps.Registry.Relays.PeerOutboxes(ctx)
	if err == nil {
		err = l.tellDelays(ctx, now)
	}
	if err != nil && ctx.Err() == nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelError, "relays not read", slog.String("network", network), slog.String("link", network), slog.Any("err", err))
	}
	return peers
}

// withheld reports whether an operator keeps messages to a registry back. What cannot be
// read now is kept back too.
func (l *Link) withheld(ctx context.Context, name string) bool {
	_, held, err := l.deps.Operators.Held(ctx, name)
	l.noteRelay(ctx, err)
	return held || err != nil
}

// pauseAfter returns how long to wait after so many failures: each time twice as long,
// and never quite as long as others wait.
func pauseAfter(failures int, first, longest time.Duration) time.Duration {
	pause := min(longest, first<<min(max(failures-1, 0), 16))
	return pause - rand.N(pause/4+1) //nolint:gosec // G404: spreads load, and keeps no secret
}

// round is one visit to a registry.
type round struct {
	name  string
	peer  peer
	err   error           // why nothing is known of the registry
	waits map[string]bool // lanes in which an earlier message has not arrived
	again time.Time       // when to come again
}

// visit sends what is due to one registry, and notes whether it answered.
func (l *Link) visit(ctx context.Context, p federation.PeerOutbox) visited {
	again, away := l.deliverDue(ctx, p.Name)
	switch {
	case ctx.Err() != nil:
	case away:
		p.Failures++
		if pause := time.Now().Add(pauseAfter(p.Failures, firstPause, longestPause)); again.Before(pause) {
			again = pause
		}
		p.Next = again
		l.noteRelay(ctx, l.deps.Registry.Relays.Pause(ctx, p))
	case p.Failures > 0:
		l.noteRelay(ctx, l.deps.Registry.Relays.Pause(ctx, federation.PeerOutbox{Name: p.Name}))
	}
	return visited{p.Name, again, away}
}

// deliverDue sends what is due to one registry, and returns when to come again and
// whether it was away.
func (l *Link) deliverDue(ctx context.Context, name string) (again time.Time, away bool) {
	now := time.Now()
	r := &round{name: name, waits: map[string]bool{}, again: now.Add(relayRecheck)}
	r.peer, r.err = l.peer(ctx, name, now)
	var after int64
	for ctx.Err() == nil {
		rows, err := l.deps.Registry.Relays.PeerDeliveries(ctx, name, after, relayPage)
		if err != nil {
			l.noteRelay(ctx, err)
			return now.Add(relayRecheck), false
		}
		for _, row := range rows {
			over, away := l.pass(ctx, r, row)
			if over || ctx.Err() != nil {
				return r.again, away
			}
			after = row.Row
		}
		if len(rows) < relayPage {
			break
		}
	}
	return r.again, false
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
	if r.waits[row.OrderKey] || row.Next.After(now) {
		r.waits[row.OrderKey] = true
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
	if err := l.deps.Registry.Relays.Attempted(ctx, row.Row, id, now); err != nil {
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
		if err := json.Unmarshal(row.Document, &doc); err != nil {
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
	l.noteRelay(ctx, l.deps.Registry.Relays.Postpone(ctx, row.Row, became.reason, unsure, now, due))
	return next
}

// arrived takes a message out that its registry has.
func (l *Link) arrived(ctx context.Context, row federation.PeerDelivery, now time.Time) {
	l.noteRelay(ctx, l.deps.Registry.Relays.PeerTook(ctx, row.Row, now))
	if row.Kind == federation.DecisionDelivery {
		return
	}
	if m, err := l.deps.Registry.Messages.Sent(ctx, row.Sender, row.Message, time.Time{}); err == nil && !m.Event.IsZero() {
		if agent, err := l.deps.Registry.Agents.Agent(ctx, m.To); err == nil {
			l.noteRelay(ctx, l.deps.Registry.Inboxes.Read(ctx, agent.DID, []federation.EventID{m.Event}, now))
		}
	}
	if row.Delayed {
		l.noteRelay(ctx, l.notify(ctx, row, noticeDelivered, "", now))
	}
}

// giveUp keeps a message that will never arrive, and tells its sender.
func (l *Link) giveUp(ctx context.Context, row federation.PeerDelivery, became fate, now time.Time) {
	l.noteRelay(ctx, l.deps.Registry.Relays.Bury(ctx, row.Row, became.ended(), became.reason, now))
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

// tellDelays tells the senders of what is under way for long.
func (l *Link) tellDelays(ctx context.Context, now time.Time) error {
	slow, err := l.deps.Registry.Relays.Slow(ctx, now.Add(-delayNotice), relayPage)
	if err != nil {
		return err
	}
	for _, row := range slow {
		if err := l.notify(ctx, row, noticeDelayed, row.Reason, now); err != nil {
			return err
		}
		if err := l.deps.Registry.Relays.Delayed(ctx, row.Row, now); err != nil {
			return err
		}
	}
	return nil
}
