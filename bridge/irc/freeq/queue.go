package freeq

import (
	"strconv"
	"time"
)

// priority orders what waits to be written.
type priority int

// The priorities: what keeps the link alive goes first, what people read last.
const (
	control priority = iota
	steps
	lines
	priorities
)

// outgoing is one message that waits to be written.
type outgoing struct {
	message any
	proof   *proof // of this message, nil for one that the peer's log does not show
	about   string // of a line that a later one about the same makes needless; "" for any other
}

// queue is the messages that wait to be written. It is owned by one goroutine.
type queue struct {
	waiting [priorities][]outgoing
	window  window
	origin  string // our endpoint id
	last    uint64 // id of the last message
}

// newQueue starts to count at the clock, so that ids rise over a restart too.
func newQueue(origin string, now time.Time) *queue {
	return &queue{origin: origin, last: uint64(now.UnixMicro())}
}

// add puts a message behind the other messages of its priority.
func (q *queue) add(p priority, o outgoing) {
	for i, w := range q.waiting[p] {
		if o.about != "" && w.about == o.about && !w.proof.ofRow() {
			q.waiting[p][i] = o
			return
		}
	}
	q.waiting[p] = append(q.waiting[p], o)
}

// size returns how many messages wait.
func (q *queue) size() int {
	n := 0
	for _, waiting := range q.waiting {
		n += len(waiting)
	}
	return n
}

// next takes out the message that is to be written now, with its id, so that ids rise in
// the order of the wire. The second result is how long to wait for one; zero where there
// is none, one was returned, or an answer of the peer has to come first.
func (q *queue) next(now time.Time) (outgoing, time.Duration, bool) {
	for p := range q.waiting {
		if len(q.waiting[p]) == 0 {
			continue
		}
		if wait, ok := q.window.room(priority(p), now); !ok {
			return outgoing{}, wait, false
		}
		o := q.waiting[p][0]
		q.waiting[p][0] = outgoing{}
		q.waiting[p] = q.waiting[p][1:]
		q.stamp(o.message)
		q.window.wrote()
		return o, 0, true
	}
	return outgoing{}, 0, false
}

// stamp gives a message its id and our origin, where its type has them.
func (q *queue) stamp(m any) {
	var id, origin *string
	switch m := m.(type) {
	case *member:
		id, origin = &m.EventID, &m.Origin
	case *said:
		id, origin = &m.EventID, &m.Origin
	case *route:
		id, origin = &m.EventID, &m.Origin
	default:
		return
	}
	q.last++
	*id, *origin = q.origin+":"+strconv.FormatUint(q.last, 10), q.origin
}
