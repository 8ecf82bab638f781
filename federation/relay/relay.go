// Package relay carries steps between homes, and wakes waiters inside one home. It is the only
// package that uses NATS.
//
// # Main types
//
//   - [Peer] is one other home. It sends pending deliveries, requests rulings, and compares histories.
//   - [PeerHandler] answers the requests of other homes.
//   - [Hub] is a NATS server that connects homes. [Host] runs such a server in this process, and
//     [WriteAccounts] writes its configuration.
//   - [Relay] wakes waiters inside this home.
//
// # Guarantees
//
// The home of a handoff orders its steps and sends each step to the mailbox homes of the parties. Only
// the signed result of the other home completes a pending delivery, so the loss of a hub delays steps but
// loses none. Duplicate messages have no effect.
//
// # Messages between homes
//
// Homes post batches of at most 256 steps to [StepsPath], or send the same bytes through a [Hub]. A
// body is UTF-8 JSON with only the members named here. [federation.SignatureHeader] has the
// signature of the sending home, "ed25519:<key id>:<base64url>", over "baton-home/1", a line feed
// and the bytes of the body:
//
//	{"type": "steps", "v": 1, "from": HOME, "to": HOME, "sent": TIME, "boot": TEXT, "items": [
//	  {"step": {"document": TEXT, "signature": TEXT, "id": ULID, "provenance": "signed"|"vouched",
//	            "party": DID, "name": TEXT, "message_id": TEXT, "received": TIME,
//	            "evidence": {"url": URL, "content": TEXT},
//	            "voucher": {"document": TEXT, "signature": TEXT}},
//	   "ruling": {"document": TEXT, "signature": TEXT},
//	   "have": VERSION}]}
//
// The document and the signature of a step are the signer's bytes. The receiver verifies them itself.
//
// A step with a ruling was filed by the home of its handoff. The ruling is signed like a body. A
// version counts the steps of the log from 1; the chain is [federation.Link] after the step:
//
//	{"type": "ruling", "v": 1, "home": HOME, "handoff": ULID, "event": ULID, "version": NUMBER,
//	 "chain": HEX, "party": DID, "via": HOME, "filed": TIME}
//
// A step without a ruling requests one from the home of its handoff. Its "have" is the number of
// steps at the requesting home. A home may vouch for a step, or identify its signer as a party with
// another DID. It signs that in a voucher, which travels with the step. A ruling that names a home in
// "via" is trusted as much as a voucher of that home:
//
//	{"type": "voucher", "v": 1, "home": HOME, "handoff": ULID, "event": ULID, "step": HEX,
//	 "party": DID, "sent": TIME}
//
// "step" is the SHA-256 of the document of the step. A voucher is verified with the keys that its home
// had when it was sent.
//
// The answer has one result for each step, in order. "of" is the SHA-256 of the request, "digest"
// that of the document of the step, and "steps" has the steps missing at the requesting home, each
// with its ruling:
//
//	{"type": "results", "v": 1, "from": HOME, "to": HOME, "of": HEX, "boot": TEXT, "results": [
//	  {"event": ULID, "digest": HEX, "outcome": OUTCOME, "code": CODE, "detail": TEXT,
//	   "have": VERSION, "steps": [ITEM, …]}]}
//
//	outcome     the step
//	stored      is on disk
//	duplicate   was on disk before
//	refused     is refused permanently; code is the reason
//	conflict    contradicts an earlier ruling of its home; both rulings are stored as proof
//	gap         follows missing steps: send the steps after "have"
//	later       cannot be judged now: send it again
//
// If a whole batch is refused, the status is not 200, and no step is filed.
//
// # Comparison of histories
//
// Two homes compare histories at the first connection after a start of either one, and at least
// every day. "boot" in each message changes with each start. The requesting home lists its latest
// versions, 256 at a time: of its own handoffs with steps at the other home ("handoffs"), and of
// the other home's handoffs ("yours"). The response lists missing steps of the former ("lacks"), and the
// other home's own lost steps ("lost"). The requesting home sends both again, which repairs a home
// restored from an older backup. If a log has different steps, the response requests the last one: its
// ruling is the proof of a fork.
//
//	{"type": "digest", "v": 1, "from": HOME, "to": HOME, "sent": TIME, "boot": TEXT,
//	 "handoffs": [{"handoff": ULID, "version": NUMBER, "chain": HEX}],
//	 "yours": [{"handoff": ULID, "version": NUMBER, "chain": HEX, "over": true|false}]}
//	{"type": "comparison", "v": 1, "from": HOME, "to": HOME, "of": HEX, "boot": TEXT,
//	 "lacks": [{"handoff": ULID, "have": VERSION}], "lost": [{"handoff": ULID, "have": VERSION}]}
//
// # Mailboxes that move
//
// An operator may move the mailbox of a DID to another home, which accepts or refuses it. Afterwards, the
// results of steps for the DID name the new home in "moved", and the homes of its handoffs send later
// steps there:
//
//	{"type": "move", "v": 1, "from": HOME, "to": HOME, "sent": TIME, "did": DID}
//	{"type": "moved", "v": 1, "from": HOME, "to": HOME, "of": HEX, "taken": true|false, "why": TEXT}
//	"moved": [{"did": DID, "home": HOME}]
//
// The former mailbox home forwards late arrivals, with the ruling of the home of the handoff.
// [PathHeader] names the homes that the steps of a batch passed through, from the home of their
// handoffs to the sender. It is not signed. No home sends a step to a home in that path. A home
// refuses a step that already passed through it, or through too many homes.
//
// # Documents
//
// GET [ResidentPath], followed by a DID, returns a signed statement whether the home has the
// mailbox of the DID:
//
//	{"type": "resident", "v": 1, "home": HOME, "did": DID, "here": true|false}
//
// The documents of a home without a public address are read through a hub. "status" and "signature" are
// as in the answer over HTTPS:
//
//	{"type": "lookup", "v": 1, "from": HOME, "to": HOME, "sent": TIME, "boot": TEXT, "path": PATH}
//	{"type": "found", "v": 1, "from": HOME, "to": HOME, "of": HEX, "boot": TEXT,
//	 "status": NUMBER, "body": TEXT, "signature": TEXT}
//
// The folder testdata has vectors of the messages.
//
// # Wake-ups inside one home
//
// A [Relay] wakes waiting polls and links with an empty outbox. It works inside one process, or through
// NATS servers shared by the replicas of a home. A wake-up may be lost, so each waiter also polls from time
// to time. Subscribe before reading, so that nothing is missed:
//
//	wake, stop := r.Subscribe(topic)
//	defer stop()
//	for !there() {
//		select {
//		case <-wake:
//		case <-time.After(time.Second):
//		case <-ctx.Done():
//			return
//		}
//	}
//
// Replicas send core NATS messages on subjects "live.<home>.<hash of the topic>". A wake-up has no body. A
// nil *Relay is valid: it wakes no waiter, and [Relay.Ready] reports that.
//
// All methods may be called concurrently.
package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/baton-gateway/baton/federation"
)

// Relay wakes waiters. It uses one connection, to keep the order: a subscription receives each later
// wake-up.
type Relay struct {
	prefix string
	conn   *nats.Conn // nil within one process
	closed chan struct{}

	mu     sync.Mutex
	topics map[string]*waiters // with at least one waiter
}

// Local returns a relay for a single gateway.
func Local() *Relay { return &Relay{closed: make(chan struct{}), topics: map[string]*waiters{}} }

// Join connects to servers shared by a home's replicas in the background, and retries until
// [Relay.Close]. It returns an error if a file cannot be read. Homes that share the servers wake
// only their own waiters.
func Join(cfg ServerConfig, home federation.HomeID, log *slog.Logger) (*Relay, error) {
	r := Local()
	r.prefix = liveSubject + token(home) + "."
	conn, err := cfg.connect(home, log,
		nats.ReconnectBufSize(-1), // a late wake-up is useless
		nats.ClosedHandler(func(*nats.Conn) { close(r.closed) }),
	)
	if err != nil {
		return nil, fmt.Errorf("join relay: %w", err)
	}
	r.conn = conn
	return r, nil
}

// Ready returns nil if waiters can be woken.
func (r *Relay) Ready() error {
	switch {
	case r == nil:
		return errors.New("relay: not started")
	case r.conn == nil:
		return nil
	}
	if status := r.conn.Status(); status != nats.CONNECTED {
		return fmt.Errorf("relay: %s", strings.ToLower(status.String()))
	}
	return nil
}

func (r *Relay) where() string {
	switch {
	case r == nil:
		return "none"
	case r.conn == nil:
		return "in this process"
	}
	return r.conn.ConnectedUrlRedacted()
}

// Check checks the server for wake-ups inside this home.
func (r *Relay) Check() federation.Finding {
	if err := r.Ready(); err != nil {
		return federation.Finding{What: "inside", State: federation.FindingWarn, Detail: err.Error() + ": waiters look every second"}
	}
	return federation.Finding{What: "inside", State: federation.FindingOK, Detail: r.where()}
}

// Close waits until the connection is closed. It is idempotent.
func (r *Relay) Close() {
	if r != nil && r.conn != nil {
		r.conn.Close()
		<-r.closed
	}
}

// A second wake-up covers all later ones.
const maxPending = 2

const liveSubject = "live."

// Wake wakes the waiters of the topics. It does not block.
func (r *Relay) Wake(topics ...string) {
	if r == nil {
		return
	}
	for _, topic := range topics {
		if r.conn == nil {
			r.notify(topic)
			continue
		}
		_ = r.conn.Publish(r.subject(topic), nil) // a wake-up may be lost
	}
}

// Subscribe returns a channel that holds one token after one or more wake-ups of the topic, until stop
// is called. The channel is never closed.
func (r *Relay) Subscribe(topic string) (wake <-chan struct{}, stop func()) {
	token := make(chan struct{}, 1)
	if r == nil {
		return token, func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[topic]
	if w == nil {
		w = &waiters{tokens: map[chan struct{}]struct{}{}}
		if err := r.listen(w, topic); err != nil {
			return token, func() {} // closed
		}
		r.topics[topic] = w
	}
	w.tokens[token] = struct{}{}
	return token, func() { r.leave(topic, token) }
}

// Publish sends a message to all replicas. It may be lost.
func (r *Relay) Publish(topic string, message []byte) {
	if r != nil && r.conn != nil {
		_ = r.conn.Publish(r.subject(topic), message)
	}
}

// Receive calls take for each message about a topic, including messages of this replica, until ctx ends.
// Messages wait while take runs.
func (r *Relay) Receive(ctx context.Context, topic string, take func(message []byte)) {
	if r == nil || r.conn == nil {
		return
	}
	subscription, err := r.conn.Subscribe(r.subject(topic), func(m *nats.Msg) { take(m.Data) })
	if err != nil {
		return // closed
	}
	<-ctx.Done()
	_ = subscription.Unsubscribe() // fails for an ended one
}

type waiters struct {
	subscription *nats.Subscription // nil within one process
	tokens       map[chan struct{}]struct{}
}

func (r *Relay) listen(w *waiters, topic string) error {
	if r.conn == nil {
		return nil
	}
	var err error
	if w.subscription, err = r.conn.Subscribe(r.subject(topic), func(*nats.Msg) { r.notify(topic) }); err != nil {
		return err
	}
	_ = w.subscription.SetPendingLimits(maxPending, -1) // fails for an ended one
	return nil
}

func (r *Relay) notify(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[topic]
	if w == nil {
		return
	}
	for token := range w.tokens {
		select {
		case token <- struct{}{}:
		default: // one token suffices
		}
	}
}

func (r *Relay) leave(topic string, token chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.topics[topic]
	if w == nil {
		return // the last waiter has left
	}
	delete(w.tokens, token)
	if len(w.tokens) > 0 {
		return
	}
	delete(r.topics, topic)
	if w.subscription != nil {
		_ = w.subscription.Unsubscribe() // fails for an ended one
	}
}

// subject hashes the topic, because dots, wildcards and spaces have a meaning in subjects.
func (r *Relay) subject(topic string) string {
	sum := sha256.Sum256([]byte(topic))
	return r.prefix + hex.EncodeToString(sum[:16])
}
