package freeq

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

// Timing of the search in the peer's log. A server files a step at once if it has the signer's key.
// Otherwise it first fetches the key, within at most five seconds.
//
// spec: freeq-s2s "Keys", "Verdicts and parking"
const (
	firstLook  = 250 * time.Millisecond
	secondLook = time.Second
	looks      = 3 // checks before the message is written again
	writings   = 3 // writes before the delivery is retried later

	lineWritings = 2 // writes of the best-effort line beside a step
)

// Reasons why a delivery waits although the peer answers.
var (
	errNotFiled = errors.New("the server answers but does not file the step: it files only steps whose key it can fetch; " +
		"check the entry for this gateway in its s2s-peer-api")
	errTextNotFiled = errors.New("the server answers but does not file the text: the channel may be moderated, or closed to its author")
)

const errOtherBytes = "the server has another step under this id"

// A server acknowledges nothing and silently drops messages, so only its log shows which ones
// arrived.
type proof struct {
	id        string // message ID in the log
	signature string // of a step; "" for a line
	message   *wireMessage
	row       *outbound   // nil for a line beside a step
	beside    bool        // a line beside a step: its row waits only for the write
	looked    chan<- bool // receives the result of a lookup in the log, or nil

	number  uint64 // of the last write, in the window of the queue
	due     time.Time
	absent  int
	written int
}

// The proof may be nil.
func (p *proof) ofRow() bool { return p != nil && p.row != nil }

// A step takes about 200 bytes. The limit exceeds the number in flight when a connection breaks.
const maxFiled = 1 << 14

// filed outlives the connection, so that an interrupted delivery is not written twice.
type filed struct {
	signatures map[string]string // by event ID
	ring       []string
	next       int
}

func (f *filed) add(id, signature string) {
	if _, known := f.signatures[id]; known {
		return
	}
	if f.signatures == nil {
		f.signatures = map[string]string{}
	}
	if len(f.ring) < maxFiled {
		f.ring = append(f.ring, id)
	} else {
		delete(f.signatures, f.ring[f.next])
		f.ring[f.next] = id
		f.next = (f.next + 1) % maxFiled
	}
	f.signatures[id] = signature
}

func (f *filed) has(id federation.EventID) bool {
	_, known := f.signatures[id.String()]
	return known
}

func (r *outbound) answer(err error) {
	if r.unproven = 0; !r.answered {
		r.answered = true
		r.done <- err
	}
}

// A step written for a ruling may get a delivery before the log is read, so the log is read first.
func (s *session) queueProved(at priority, p *proof, about string) {
	if s.settled(p) {
		return
	}
	if p.row != nil {
		p.row.unproven++
	}
	if at == steps && !s.written.Add(p.id) {
		s.wrote(p, time.Now())
		return
	}
	s.queue.add(at, outgoing{message: p.message, proof: p, about: about})
}

func (s *session) settled(p *proof) bool {
	signature, known := s.link.filed.signatures[p.id]
	if known && signature != p.signature && p.row != nil && !p.row.foreign {
		p.row.answer(&federation.RefusalError{Code: federation.EventIDInUse, Detail: errOtherBytes})
	}
	return known
}

// A line beside a step needs no proof, because a moderated channel drops it.
func (s *session) wrote(p *proof, now time.Time) {
	p.number, p.due, p.absent = s.queue.window.written, now, 0
	p.written++
	s.proofs = append(s.proofs, p)
	if r := p.row; p.beside && r != nil {
		p.row = nil
		r.proved()
	}
}

func (r *outbound) proved() {
	if r.unproven--; r.unproven == 0 {
		r.answer(r.ends)
	}
}

// A missing response reveals a dead peer, so prove also runs after a message without proof. It
// sends one query at a time. The result is the time until the next message is due, or zero.
func (s *session) prove(now time.Time) (wait time.Duration) {
	if slices.ContainsFunc(s.asked, func(q question) bool { return q.tail }) {
		return 0
	}
	due := s.unanswered || s.queue.window.inFlight() >= maxInFlight && s.queue.size() > 0
	for _, p := range s.proofs {
		left := p.due.Sub(now)
		due = due || left <= 0
		if wait == 0 || left < wait {
			wait = left
		}
	}
	if due {
		s.look()
		return 0
	}
	return wait
}

// If the peer drops nothing, any answer is enough.
func (s *session) look() {
	s.unanswered = false
	m := &catchupRequest{Since: s.cursor}
	if s.lossless() {
		m = &catchupRequest{Since: farFuture, Limit: 1}
	}
	s.ask(question{tail: true}, m)
}

// A gateway keeps each message that it reads, but a freeq server may drop it.
func (s *session) lossless() bool {
	return s.greeting != nil && slices.Contains(s.greeting.Capabilities, capLossless)
}

func (s *session) lookFor(id federation.EventID, looked chan<- bool) {
	if s.link.filed.has(id) {
		looked <- true
		return
	}
	s.proofs = append(s.proofs, &proof{id: id.String(), looked: looked, number: s.queue.window.written, due: time.Now()})
}

func (s *session) onTail(ctx context.Context, q question, m *catchupEvents) {
	shown := map[string]bool{}
	before := s.cursor
	for _, row := range m.Events {
		s.cursor = max(s.cursor, row.Timestamp)
		shown[row.EventID] = true
		s.onFile(row)
	}
	now := time.Now()
	if m.More && s.cursor == before {
		s.cursor++ // one second filled the page
		s.log.LogAttrs(ctx, slog.LevelWarn, "more rows in one second than a page holds: some deliveries may be made again", slog.Int64("second", before))
	}
	proofs := s.proofs
	s.proofs = nil
	for _, p := range proofs {
		switch {
		case p.looked != nil && (shown[p.id] || !m.More && p.number < q.number):
			p.looked <- shown[p.id]
		case shown[p.id] || s.lossless() && p.number <= q.number:
			s.proved(p)
		case p.looked != nil || p.number > q.number || m.More || now.Before(p.due):
			s.proofs = append(s.proofs, p)
		default:
			s.missing(ctx, p, now)
		}
	}
	if m.More {
		s.look()
	}
}

// A server keeps a line under its first second, out of the range of later queries, and drops repeated
// lines.
func (s *session) onFile(row replayed) {
	switch {
	case row.Kind == "act":
		_, again := s.link.filed.signatures[row.EventID] // queries overlap by a second
		s.link.filed.add(row.EventID, row.Signature)
		s.link.peers.saw(row, !again)
	case row.Kind == "message" && row.Origin == string(s.link.deps.Home):
		s.link.filed.add(row.EventID, "")
	}
}

func (s *session) proved(p *proof) {
	s.link.filed.add(p.id, p.signature) // also a line, and messages of a lossless peer
	if p.row == nil || s.settled(p) && p.row.answered {
		return
	}
	p.row.proved()
}

// missing searches again, then writes the message again, and then leaves it to a later attempt.
func (s *session) missing(ctx context.Context, p *proof, now time.Time) {
	p.absent++
	switch {
	case p.row != nil && p.row.answered: // another message of the row was not filed
	case p.absent == 1:
		p.due = now.Add(firstLook)
		s.proofs = append(s.proofs, p)
	case p.absent < looks:
		p.due = now.Add(secondLook)
		s.proofs = append(s.proofs, p)
	case p.written < lineWritings, !p.beside && p.written < writings:
		s.writeAgain(p)
	case p.row != nil && p.message.Type == typePrivmsg:
		p.row.answer(irc.Unavailable(s.link.cfg.Name, errTextNotFiled))
	case p.row != nil:
		p.row.answer(irc.Unavailable(s.link.cfg.Name, errNotFiled))
	default:
		s.link.filed.add(p.id, "") // later attempts do not write it either
		s.log.LogAttrs(ctx, slog.LevelWarn, "line not shown: the server does not file it", slog.String("handoff_id", p.message.Tags[irc.RefTag]))
	}
}

// The JOIN of the user, which a channel requires, may be lost too.
func (s *session) writeAgain(p *proof) {
	s.link.deps.Metrics.Resent.WithLabelValues(network, s.link.cfg.Name).Inc()
	if p.message.Type == typeTagmsg {
		s.queue.add(steps, outgoing{message: p.message, proof: p})
		return
	}
	if from := s.link.named(p.message.From); from != nil {
		if from.In[p.message.Target] {
			s.join(from, p.message.Target)
		}
		p.message.From = from.Nick
	}
	s.queue.add(lines, outgoing{message: p.message, proof: p})
}
