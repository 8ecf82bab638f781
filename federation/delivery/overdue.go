package delivery

import (
	"context"
	"log/slog"
	"time"
)

const (
	overdueLook = 5 * time.Second
	// A write that ends this many deliveries delays a filing by about a millisecond.
	overdueBatch = 16
)

// Overdue is one kind of pending delivery, with a notice after [Policy.Delayed] and an end after
// [Policy.Expires].
type Overdue struct {
	// Policy is read at each check, because the configuration may be reloaded.
	Policy func() Policy
	// Delay files a notice for up to limit deliveries queued at or before a given time without one,
	// and returns their number. It may be nil.
	Delay func(ctx context.Context, before, now time.Time, limit int) (int, error)
	// Expire abandons up to limit deliveries queued at or before a given time, and returns their
	// number.
	Expire func(ctx context.Context, before, now time.Time, limit int) (int, error)
	// Expired is called with the number of expired deliveries, if any. It may be nil.
	Expired func(ctx context.Context, rows int)
}

// CheckOverdue files the due notices, and abandons expired deliveries. It stops at the first error
// of the record.
func CheckOverdue(ctx context.Context, now time.Time, kinds ...Overdue) error {
	for _, o := range kinds {
		policy := o.Policy()
		if policy.Delayed > 0 && o.Delay != nil {
			if _, err := repeat(ctx, o.Delay, now.Add(-policy.Delayed), now); err != nil {
				return err
			}
		}
		if policy.Expires == 0 {
			continue
		}
		expired, err := repeat(ctx, o.Expire, now.Add(-policy.Expires), now)
		if expired > 0 && o.Expired != nil {
			o.Expired(ctx, expired)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeat repeats a change until it processes less than a full batch, and returns the sum.
func repeat(ctx context.Context, change func(ctx context.Context, before, now time.Time, limit int) (int, error), before, now time.Time) (sum int, err error) {
	for {
		n, err := change(ctx, before, now, overdueBatch)
		sum += n
		if err != nil || n < overdueBatch {
			return sum, err
		}
	}
}

// RunOverdue calls CheckOverdue with the time of clock every five seconds until ctx ends.
func RunOverdue(ctx context.Context, log *slog.Logger, clock func() time.Time, kinds ...Overdue) {
	tick := time.NewTicker(overdueLook)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := CheckOverdue(ctx, clock(), kinds...); shouldLog(ctx, err) {
			log.LogAttrs(ctx, slog.LevelError, "overdue deliveries not ended", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
