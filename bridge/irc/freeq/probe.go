package freeq

import (
	"errors"
	"time"
)

// question is a catchup_request that waits for its answer. The protocol has no other
// question, and its answers come in the order of the questions: what was written
// before one has been read when its answer comes.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
type question struct {
	rows    []*row    // that the answer proves
	page    bool      // asked for events, and not merely whether the peer is there
	written time.Time // zero while it waits to be
}

// farFuture is a time from which no server has events: the answer is empty, and
// comes at once. It is in the year 5138, in unix seconds.
const farFuture = 99_999_999_999

// ask puts a question to the peer.
func (s *session) ask(q question, m *catchupRequest) {
	m.Type, m.PeerID = typeCatchupRequest, s.link.id
	s.asked = append(s.asked, q)
	s.put(control, m)
}

func (s *session) probe(rows []*row) {
	s.ask(question{rows: rows}, &catchupRequest{Since: farFuture, Limit: 1})
}

// prove asks after the rows that were written, unless the last such question still
// waits: its answer is soon there, and the next question then proves more at once.
func (s *session) prove() {
	if len(s.unproven) == 0 {
		return
	}
	for _, q := range s.asked {
		if len(q.rows) > 0 {
			return
		}
	}
	s.probe(s.unproven)
	s.unproven = nil
}

// firstUnwritten returns the index of the question that is written now: they are
// written in order.
func (s *session) firstUnwritten() int {
	for i, q := range s.asked {
		if q.written.IsZero() {
			return i
		}
	}
	return 0
}

// answered takes out the oldest question.
func (s *session) answered() (question, bool) {
	if len(s.asked) == 0 || s.asked[0].written.IsZero() {
		return question{}, false
	}
	q := s.asked[0]
	s.asked = s.asked[1:]
	for _, r := range q.rows {
		r.done <- nil
	}
	return q, true
}

// watch asks a silent peer whether it lives, and ends the link with one that does
// not answer.
func (s *session) watch(now time.Time) error {
	for _, q := range s.asked {
		if q.written.IsZero() {
			continue
		}
		if now.Sub(q.written) > answerTimeout && now.Sub(s.heard) > answerTimeout || now.Sub(q.written) > busyTimeout {
			return errors.New("no answer within " + now.Sub(q.written).Round(time.Second).String())
		}
	}
	if s.linked && len(s.asked) == 0 && now.Sub(s.probed) >= probeEvery {
		s.probed = now
		s.probe(nil)
		s.link.reach.try(s.Asking, &s.link.reach.listen) // where the last attempt failed
	}
	s.recover(now)
	s.press(s.Asking, now)
	return nil
}
