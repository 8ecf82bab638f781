package freeq

import "time"

// minAnswerTimeout is the shortest timeout for an answer. A server answers within 0.2 s.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
const minAnswerTimeout = 2 * time.Second

// roundTrips estimates the answer time of a peer, as TCP does. It outlives the connection, and
// belongs to one goroutine. The zero value has no measurement yet.
//
// spec: rfc6298
type roundTrips struct {
	smoothed, deviation time.Duration
	backoff             uint // consecutive timeouts; each doubles the next
}

// measured records the time of one answer.
func (r *roundTrips) measured(took time.Duration) {
	r.backoff = 0
	if r.smoothed == 0 {
		r.smoothed, r.deviation = took, took/2
		return
	}
	r.deviation = (3*r.deviation + (r.smoothed - took).Abs()) / 4
	r.smoothed = (7*r.smoothed + took) / 8
}

// timeout returns the timeout for the next answer.
func (r *roundTrips) timeout() time.Duration {
	estimate := max(minAnswerTimeout, r.smoothed+4*r.deviation) << min(r.backoff, 3)
	return min(estimate, answerTimeout)
}

// missed records a timeout.
func (r *roundTrips) missed() { r.backoff++ }
