// Package relay carries steps between homes, and wakes the waiters inside one.
//
// # Between homes
//
// The home of a handoff orders its steps, and owes each to the homes that have the
// mailboxes of its parties. A [Peer] is one other home: it sends what is owed, asks for
// rulings on the steps of its own people, and a [PeerHandler] takes what others send. What is
// owed is a row of the record, and dies by the other home's signed word alone.
//
// Homes post batches of at most 256 steps to [StepsPath], or send the same bytes through
// a NATS server that they meet at (see [Hub]). A body is UTF-8 JSON without
// members that are not named here, and beside it, in [federation.SignatureHeader], stands the
// signature of the home that it is from, "ed25519:<key id>:<base64url>", over
// "baton-home/1", a line feed and the bytes of the body:
//
//	{"type": "steps", "v": 1, "from": HOME, "to": HOME, "sent": TIME, "items": [
//	  {"step": {"document": TEXT, "signature": TEXT, "id": ULID, "provenance": "signed"|"vouched",
//	            "party": DID, "name": TEXT, "message_id": TEXT, "received": TIME,
//	            "evidence": {"url": URL, "content": TEXT},
//	            "voucher": {"document": TEXT, "signature": TEXT}},
//	   "ruling": {"document": TEXT, "signature": TEXT},
//	   "have": VERSION}]}
//
// The document and the signature of a step are as its signer made them. The receiver
// verifies both by the keys of the signer, and depends on no other verdict. A step
// with a ruling was filed by its home. The ruling is signed as a body is:
//
//	{"type": "ruling", "v": 1, "home": HOME, "handoff": ULID, "event": ULID, "version": NUMBER,
//	 "chain": HEX, "party": DID, "via": HOME, "filed": TIME}
//
// A home may vouch for a step, or know its signer as a party by another DID. Where another home
// rules on the step, the home signs that as a voucher: it sends the voucher with the question,
// and the voucher travels with the step. A ruling that names a
// "via" is believed as far as that home has signed it:
//
//	{"type": "voucher", "v": 1, "home": HOME, "handoff": ULID, "event": ULID, "step": HEX,
//	 "party": DID, "sent": TIME}
//
// "step" is the SHA-256 of the document of the step. A voucher is judged by the keys that its
// home had when it was sent.
//
// A version counts the steps of the log from 1; the chain is [federation.Link] after the
// step. A step without a ruling asks the home of its handoff for one, and says how many
// steps the asker has. The answer has one result for each step, in order:
//
//	{"type": "results", "v": 1, "from": HOME, "to": HOME, "of": HEX, "results": [
//	  {"event": ULID, "digest": HEX, "outcome": OUTCOME, "code": CODE, "detail": TEXT,
//	   "have": VERSION, "steps": [ITEM, …]}]}
//
// "of" is the SHA-256 of the body, "digest" that of the step's document. The outcomes
// are stored and duplicate (it is on disk), refused (with the code), conflict (the home
// contradicts an earlier ruling of its own: both are kept as proof), gap (the log goes as
// far as "have": send what follows), later. Steps are the ones that the asker lacked, each
// with its ruling. A batch that is not taken as a whole is answered with another status
// than 200, and nothing of it was filed.
//
// What two homes have is compared with each new connection, though not twice within an
// hour, and every day: the home of handoffs says how far those go that the other one has
// taken steps of, 256 at a time, and that answers what it lacks, which is sent again. A
// home whose record is an older copy is so made whole. Where a log has other steps, the
// last one is asked for: its ruling is then the proof of a fork.
//
//	{"type": "digest", "v": 1, "from": HOME, "to": HOME, "sent": TIME, "handoffs": [
//	  {"handoff": ULID, "version": NUMBER, "chain": HEX}]}
//	{"type": "comparison", "v": 1, "from": HOME, "to": HOME, "of": HEX, "lacks": [
//	  {"handoff": ULID, "have": VERSION}]}
//
// In [PathHeader] stand the homes that the steps of a batch came through, from that of
// their handoffs to the sender. No signature covers it. A step is never sent to a home in
// it, and is refused where it has been, or came through more homes than may be. There are
// more than one where a DID moved: its home of before forwards what still comes for it,
// with the ruling that the home of the handoff signed.
//
// An operator may give the mailbox of a DID to another home, which says whether it takes
// it. From then on the results of steps for that DID say so under "moved", and those whose
// handoffs they are send there what is still to come:
//
//	{"type": "move", "v": 1, "from": HOME, "to": HOME, "sent": TIME, "did": DID}
//	{"type": "moved", "v": 1, "from": HOME, "to": HOME, "of": HEX, "taken": true|false, "why": TEXT}
//	"moved": [{"did": DID, "home": HOME}]
//
// GET [ResidentPath] and a DID answers, signed alike, whether that has its mailbox there:
//
//	{"type": "resident", "v": 1, "home": HOME, "did": DID, "here": true|false}
//
// Vectors of all of these are in testdata.
//
// # Inside one home
//
// A [PeerDelivery] wakes a poll that waits for a message, and a link whose feed ran dry: inside
// one process, or by NATS servers that the replicas of one home share. It is not the
// record. A wake-up carries nothing but its topic and may be lost, so each waiter looks
// again by itself after a while; with a wake-up it looks within a millisecond. To miss
// nothing in between, subscribe first and look afterwards:
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
// Between replicas go core NATS messages without a body, on subjects
// "live.<home>.<hash of the topic>".
//
// A nil *Relay is one that never came up: waking does nothing, no waiter is woken, and
// [PeerDelivery.Ready] says so. A gateway runs on with it. All methods may be called
// concurrently.
package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"baton/federation"
)

// Relay wakes waiters. With servers it has one connection, which keeps the order: a
// subscription that was made before a wake-up receives it.
type Relay struct {
	prefix string     // of subjects
	conn   *nats.Conn // nil inside one process
	closed chan struct{}

	mu     sync.Mutex
	topics map[string]*waiters // by topic, those with a waiter
}

// Local returns a relay for a home that has one gateway.
func Local() *Relay { return &Relay{closed: make(chan struct{}), topics: map[string]*waiters{}} }

// Join begins to connect to servers that the replicas of one home share, and goes on
// until [PeerDelivery.Close]. Servers that are away now are no error; a file that cannot be read
// is. Homes that share the servers wake their own waiters alone.
func Join(cfg ServerConfig, home federation.HomeID, log *slog.Logger) (*Relay, error) {
	r := Local()
	r.prefix = liveSubject + token(home) + "."
	conn, err := cfg.connect(home, log,
		nats.ReconnectBufSize(-1), // a wake-up that comes late says nothing
		nats.ClosedHandler(func(*nats.Conn) { close(r.closed) }),
	)
	if err != nil {
		return nil, fmt.Errorf("join relay: %w", err)
	}
	r.conn = conn
	return r, nil
}

// Ready returns nil while waiters can be woken.
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

// where names the server, for people.
func (r *Relay) where() string {
	switch {
	case r == nil:
		return "none"
	case r.conn == nil:
		return "in this process"
	}
	return r.conn.ConnectedUrlRedacted()
}

// Check examines the server that wakes waiters inside this home.
func (r *Relay) Check() federation.Finding {
	if err := r.Ready(); err != nil {
		return federation.Finding{What: "inside", State: federation.FindingWarn, Detail: err.Error() + ": waiters look every second"}
	}
	return federation.Finding{What: "inside", State: federation.FindingOK, Detail: r.where()}
}

// Close ends the connection and waits until it has ended. Closing again does nothing.
func (r *Relay) Close() {
	if r != nil && r.conn != nil {
		r.conn.Close()
		<-r.closed
	}
}
