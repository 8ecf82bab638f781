package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Reroutes moves pending deliveries to another outbox. Its promises are in [Store].
type Reroutes interface {
	// OutboxNames returns the names of the outboxes in which a delivery is pending, in order.
	OutboxNames(ctx context.Context) ([]string, error)
	// Reroute moves deliveries from one outbox to another, where each keeps its age and is due
	// in the order of its handoff, with no attempt counted. A delivery that has ended is skipped,
	// and one whose step is pending there already is dropped.
	Reroute(ctx context.Context, from, to string, rows []int64) error
	// UnlocatedReaders returns up to limit DIDs after one, in order, for which something waits in an
	// inbox here, and which have neither a kept mailbox location nor signed a filed step.
	UnlocatedReaders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error)
	// RouteUnread files a delivery in an outbox for each step that waits in the inbox of a DID,
	// unless its handoff is over or of another home, a link delivered the step, or the outbox had
	// the step before. It returns how many. They count as filed now.
	RouteUnread(ctx context.Context, did federation.DID, to string, now time.Time) (int, error)
}
