package agentapi

import (
	"context"
	"net/http"
	"time"

	"baton/federation"
)

// lookAgain is how often a waiting request looks into the inbox without a notification, as
// one may be lost.
const lookAgain = 15 * time.Second

// answerTime is how long a client may take to read an answer that it waited for.
const answerTime = time.Minute

// waiter is a request that waits for entries of an inbox, for a time.
type waiter struct {
	*subscriber

	until time.Time
	again *time.Timer
}

// await subscribes a request to an inbox, and moves the deadlines of its connection: the
// listener ends other requests sooner. The caller ends the subscription with leave.
func (l *Link) await(ctx context.Context, did federation.DID, within time.Duration) *waiter {
	control, until := callerOf(ctx).control, time.Now().Add(within)
	_ = control.SetReadDeadline(until.Add(answerTime)) // a connection without deadlines needs no other
	_ = control.SetWriteDeadline(until.Add(answerTime))
	return &waiter{l.subscribe(did), until, time.NewTimer(min(within, lookAgain))}
}

// wait blocks until it is time to look again, and then returns true. It returns false once
// the time is over, ctx has ended or the gateway stops.
func (w *waiter) wait(ctx context.Context) bool {
	select {
	case <-w.notified:
		w.listen()
		return true
	case <-w.again.C:
		left := time.Until(w.until)
		w.again.Reset(min(left, lookAgain))
		return left > 0
	case <-w.link.ended:
		return false
	case <-ctx.Done():
		return false
	}
}

// leave ends the subscription.
func (w *waiter) leave() {
	w.again.Stop()
	w.subscriber.leave()
}

// poll returns the entries of an inbox at a place. It blocks until there is one, the time is
// over or the gateway stops.
func (l *Link) poll(ctx context.Context, did federation.DID, at place, within time.Duration) (*page, error) {
	w := l.await(ctx, did, within)
	defer w.leave()
	for waits := true; ; {
		p, err := w.look(ctx, at)
		if err != nil || len(p.entries) > 0 || !waits {
			return p, err
		}
		waits = w.wait(ctx)
	}
}

// unanswered is the answer to a client that has left.
type unanswered struct{}

// VisitListInboxResponse implements [contract.ListInboxResponseObject].
func (unanswered) VisitListInboxResponse(http.ResponseWriter) error { return nil }
