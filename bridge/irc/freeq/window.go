package freeq

import "time"

// The bounds of a [window]. A server takes 100 messages of a peer in one second of its clock
// and drops the rest without an answer. It counts a message when it processes it: after a
// stall it processes in one second what came in several.
//
// spec: freeq-s2s "Rate limit and queues"
const (
	maxPerSecond = 90 // messages that the peer may process in any one second
	maxInFlight  = 50 // messages that the peer may not have processed yet
	controlRoom  = 8  // on top of both, for answers and questions: these open the window again
)

// window bounds the messages that the peer may process in one second. The peer processes each
// message between the moment it is written and the moment the answer to a later question
// arrives. So no second of the peer has more messages than are in flight at its end or were
// answered within it. It belongs to one goroutine.
type window struct {
	written, processed uint64
	recent             []processedBatch // within the last second, oldest first
}

// processedBatch is the messages that one answer shows to be processed.
type processedBatch struct {
	messages uint64
	at       time.Time
}

// wrote counts one message, and returns its number.
func (w *window) wrote() uint64 {
	w.written++
	return w.written
}

// answered notes that the peer has processed all messages up to a number.
func (w *window) answered(upTo uint64, now time.Time) {
	if upTo <= w.processed {
		return
	}
	w.recent = append(w.recent, processedBatch{upTo - w.processed, now})
	w.processed = upTo
}

// inFlight returns how many messages the peer may not have processed.
func (w *window) inFlight() int { return int(w.written - w.processed) } //nolint:gosec // G115: bounded by the window

// room reports whether one more message may be written now. Where the last second alone
// forbids it, wait says for how long; where messages in flight do, an answer ends that.
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
