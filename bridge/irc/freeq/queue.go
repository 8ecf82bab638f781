package freeq

import (
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

// A server takes 100 messages of a peer in one second of the clock and drops the
// rest without a word. A full burst and a second's worth together are below that.
const (
	perSecond = 70
	burst     = 10
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
	row     *row   // that is written with this message, nil for none
	about   string // of a line that a later one about the same makes needless; "" for any other
}

// queue is what waits to be written. It is owned by one goroutine.
type queue struct {
	waiting [priorities][]outgoing
	pace    *rate.Limiter
	origin  string // our endpoint id
	last    uint64 // id of the last message
}

// newQueue starts to count at the clock, so that ids rise over a restart too.
func newQueue(origin string, now time.Time) *queue {
	return &queue{pace: rate.NewLimiter(perSecond, burst), origin: origin, last: uint64(now.UnixMicro())}
}

// add puts a message at the end of those of its priority.
func (q *queue) add(p priority, o outgoing) {
	for i, w := range q.waiting[p] {
		if o.about != "" && w.about == o.about && w.row == nil {
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

// next takes out what is to be written now, with its id, so that ids rise in the
// order of the wire. The second result is how long to wait for one; zero where there
// is none or one was returned.
func (q *queue) next(now time.Time) (outgoing, time.Duration, bool) {
	for p := range q.waiting {
		if len(q.waiting[p]) == 0 {
			continue
		}
		reservation := q.pace.ReserveN(now, 1)
		if wait := reservation.DelayFrom(now); wait > 0 {
			reservation.CancelAt(now)
			return outgoing{}, wait, false
		}
		o := q.waiting[p][0]
		q.waiting[p][0] = outgoing{}
		q.waiting[p] = q.waiting[p][1:]
		q.stamp(o.message)
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
