package agentapi

import (
	"context"
	"time"

	"baton/bridge/participant"
	"baton/federation"
)

// answerTime is how long a client may take to read an answer that it waited for.
const answerTime = time.Minute

// await subscribes a request to an inbox, and moves the deadlines of its connection: the
// listener ends other requests sooner. The caller ends the subscription with Leave.
func (l *Link) await(ctx context.Context, did federation.DID, within time.Duration) *participant.Waiter[place, *page] {
	control, until := callerOf(ctx).control, time.Now().Add(within)
	_ = control.SetReadDeadline(until.Add(answerTime)) // a connection without deadlines needs no other
	_ = control.SetWriteDeadline(until.Add(answerTime))
	return l.topics.Await(did, within)
}

// poll returns the entries of an inbox at a place. It blocks until there is one, the time is
// over or the gateway stops.
func (l *Link) poll(ctx context.Context, did federation.DID, at place, within time.Duration) (*page, error) {
	w := l.await(ctx, did, within)
	defer w.Leave()
	return w.Poll(ctx, at, l.Ended())
}
