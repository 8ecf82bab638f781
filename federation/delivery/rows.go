package delivery

import (
	"context"
	"time"

	"baton/federation"
	"baton/federation/store/deliveries"
)

// Rows holds the pending deliveries of destinations in lanes. The deliveries of a lane keep their
// order. [deliveries.Rows] has them on record, and documents the methods. They may be called
// concurrently and block on the disk. Each returns an error that wraps [*federation.UnavailableError]
// when the disk cannot be read or written now.
type Rows interface {
	Held(ctx context.Context, to string) (federation.Withheld, bool, error)
	Heads(ctx context.Context, to string, now time.Time, limit int) ([]string, error)
	Turn(ctx context.Context, to string, after federation.DID, now time.Time, limit int) (deliveries.Turn, error)
	PendingOf(ctx context.Context, to, lane string, limit int) ([]federation.Delivery, error)
	Stuck(ctx context.Context, to string, did federation.DID, now time.Time) (string, error)
	Attempt(ctx context.Context, to string, rows []int64) error
	Failed(ctx context.Context, to string, row int64, f federation.Failure) error
	Settle(ctx context.Context, to string, rows []int64, s federation.Settlement) error
	Hurry(ctx context.Context, to string) error
}
