package freeq

import "time"

// minAnswerTimeout is the shortest wait for an answer. A server answers within 0.2 s.
//
// spec: freeq-s2s "Keepalive, idle, reconnect"
const minAnswerTimeout = 2 * time.Second

// roundTrips estimates how long a peer may take to answer a question, as TCP does. It outlives
// the connection, and belongs to one goroutine. The zero value has measured nothing.
//
// spec: rfc6298
type roundTrips struct {
	smoothed, deviation time.Duration
	backoff             uint // how often in a row the timeout was reached: each doubles the next
}

// measured takes in the time of one answer.
func (r *roundTrips) measured(took time.Duration) {
	r.backoff = 0
	if r.smoothed == 0 {
		r.smoothed, r.deviation = took, took/2
		return
	}
	r.deviation = (3*r.deviation + (r.smoothed - took).Abs()) / 4
	r.smoothed = (7*r.smoothed + took) / 8
}

// timeout returns how long to wait for the next answer.
func (r *roundTrips) timeout() time.Duration {
	estimate := max(minAnswerTimeout, r.smoothed+4*r.deviation) << min(r.backoff, 3)
	return min(estimate, answerTimeout)
}

// missed notes that no answer came in time.
func (r *roundTrips) missed() { r.backoff++ }
