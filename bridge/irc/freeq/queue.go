package freeq

import (
	"strconv"
	"time"
)

type priority int

// Messages that keep the link alive are first; readable text is last.
const (
	control priority = iota
	steps
	lines
	priorities
)

type outgoing struct {
	message any
	proof   *proof // nil if the peer's log does not show the message
	about   string // subject of a line that a later one supersedes, or ""
}

// One goroutine owns a queue.
type queue struct {
	waiting [priorities][]outgoing
	window  window
	origin  string
	last    uint64
}

// IDs start at the current time, so that they increase across restarts.
func newQueue(origin string, now time.Time) *queue {
	return &queue{origin: origin, last: uint64(now.UnixMicro())}
}

func (q *queue) add(p priority, o outgoing) {
	for i, w := range q.waiting[p] {
		if o.about != "" && w.about == o.about && !w.proof.ofRow() {
			q.waiting[p][i] = o
			return
		}
	}
	q.waiting[p] = append(q.waiting[p], o)
}

func (q *queue) size() int {
	n := 0
	for _, waiting := range q.waiting {
		n += len(waiting)
	}
	return n
}

// next assigns the message ID, so that IDs increase in the order of the wire. The duration is the
// wait for the next message. It is zero if there is none, if one was returned, or if a response of
// the peer must arrive first.
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

func (q *queue) stamp(m any) {
	var id, origin *string
	switch m := m.(type) {
	case *member:
		id, origin = &m.EventID, &m.Origin
	case *wireMessage:
		id, origin = &m.EventID, &m.Origin
	case *route:
		id, origin = &m.EventID, &m.Origin
	default:
		return
	}
	q.last++
	*id, *origin = q.origin+":"+strconv.FormatUint(q.last, 10), q.origin
}

// The limits of a [window]. A server accepts 100 messages of a peer per second and silently drops
// the others. It counts a message when it processes it. After a stall, it processes several
// seconds' messages in one.
//
// spec: freeq-s2s "Rate limit and queues"
const (
	maxPerSecond = 90 // messages that the peer may process in any one second
	maxInFlight  = 50 // messages that the peer may not have processed yet
	controlRoom  = 8  // extra room for responses and requests, which reopen the window
)

// window bounds the messages that the peer may process in one second. The peer processes each
// message between its write and the response to a later question. The bound is therefore the number
// in flight plus the number answered within the second.
type window struct {
	written, processed uint64
	recent             []processedBatch // within the last second, oldest first
}

type processedBatch struct {
	messages uint64
	at       time.Time
}

func (w *window) wrote() uint64 {
	w.written++
	return w.written
}

func (w *window) answered(upTo uint64, now time.Time) {
	if upTo <= w.processed {
		return
	}
	w.recent = append(w.recent, processedBatch{upTo - w.processed, now})
	w.processed = upTo
}

func (w *window) inFlight() int { return int(w.written - w.processed) } //nolint:gosec // G115: bounded by the window

// The wait is the remaining time if the rate prevents a write. If messages in flight prevent it, wait
// is zero and an answer reopens the window.
func (w *window) room(p priority, now time.Time) (wait time.Duration, ok bool) {
	for len(w.recent) > 0 && now.Sub(w.recent[0].at) >= time.Second {
		w.recent = w.recent[1:]
	}
	flight, second := maxInFlight, maxPerSecond
	if p == control {
		flight, second = flight+controlRoom, second+controlRoom
	}
	if w.inFlight() >= flight {
		return 0, false
	}
	counted := w.inFlight()
	for _, b := range w.recent {
		counted += int(b.messages) //nolint:gosec // G115: bounded by the window
	}
	if counted >= second {
		return max(time.Millisecond, w.recent[0].at.Add(time.Second).Sub(now)), false
	}
	return 0, true
}
