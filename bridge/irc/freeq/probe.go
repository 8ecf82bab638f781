package freeq

import (
	"errors"
	"time"
)

// question is a catchup_request waiting for its answer. Responses arrive in order. A response means
// that the peer has processed, or dropped, each message written before the question.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
type question struct {
	tail    bool // searches the log for written messages
	page    bool
	written time.Time // zero until it is written
	number  uint64    // of the write, in the window of the queue
	row     *outbound // proved by the answer, or nil
}

const listenAgain = 15 * time.Second

// farFuture is the year 5138 in unix seconds. It is after all events of a server, so that the server
// sends an empty response at once.
const farFuture = 99_999_999_999

func (s *session) ask(q question, m *catchupRequest) {
	m.Type, m.PeerID = typeCatchupRequest, s.link.id
	s.asked = append(s.asked, q)
	s.put(control, m)
}

// A probe proves an earlier row or, without a row, only that the peer is alive.
func (s *session) probe(r *outbound) {
	s.ask(question{row: r}, &catchupRequest{Since: farFuture, Limit: 1})
}

// Questions are written in order.
func (s *session) wroteQuestion(now time.Time) {
	for i := range s.asked {
		if q := &s.asked[i]; q.written.IsZero() {
			q.written, q.number = now, s.queue.window.written
			return
		}
	}
}

func (s *session) answered() (question, bool) {
	if len(s.asked) == 0 || s.asked[0].written.IsZero() {
		return question{}, false
	}
	q := s.asked[0]
	s.asked = s.asked[1:]
	now := time.Now()
	s.link.trips.measured(now.Sub(q.written))
	s.queue.window.answered(q.number, now)
	if q.row != nil {
		q.row.answer(nil)
	}
	return q, true
}

func (s *session) watch(now time.Time) error {
	for _, q := range s.asked {
		if q.written.IsZero() {
			continue
		}
		timeout := answerTimeout
		if s.linked {
			timeout = s.link.trips.timeout()
		}
		if now.Sub(q.written) > timeout && now.Sub(s.lastRead) > timeout || now.Sub(q.written) > busyTimeout {
			s.link.trips.missed()
			return errors.New("no answer within " + now.Sub(q.written).Round(100*time.Millisecond).String())
		}
	}
	if s.linked && now.Sub(s.tried) >= listenAgain {
		s.tried = now
		s.link.reach.try(s.Asking, &s.link.reach.listen) // if the last attempt failed
	}
	if s.linked && len(s.asked) == 0 && now.Sub(s.lastRead) >= probeEvery {
		s.probe(nil)
	}
	s.retryDueReceipts(now)
	s.recover(now)
	s.turn(s.Asking) // rows may wait for the rate of the link
	s.press(s.Asking, now)
	return nil
}

// A server answers within 0.2 s.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
const minAnswerTimeout = 2 * time.Second

// roundTrips estimates the answer time of a peer, as TCP does. It outlives the connection. Only one
// goroutine may use it.
//
// spec: rfc6298
type roundTrips struct {
	smoothed, deviation time.Duration
	backoff             uint // consecutive timeouts; each doubles the next
}

func (r *roundTrips) measured(took time.Duration) {
	r.backoff = 0
	if r.smoothed == 0 {
		r.smoothed, r.deviation = took, took/2
		return
	}
	r.deviation = (3*r.deviation + (r.smoothed - took).Abs()) / 4
	r.smoothed = (7*r.smoothed + took) / 8
}

func (r *roundTrips) timeout() time.Duration {
	estimate := max(minAnswerTimeout, r.smoothed+4*r.deviation) << min(r.backoff, 3)
	return min(estimate, answerTimeout)
}

func (r *roundTrips) missed() { r.backoff++ }
