package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/federation"
)

// Bounds of one pass over a feed.
const (
	feedPage  = 256 // rows read at once: what arrives while they are delivered is the next page
	feedLanes = 64  // handoffs delivered side by side
)

// idleWait is when a feed looks by itself: a wake-up may have been lost.
const idleWait = time.Second

var errEnded = errors.New("bridge: the link ended")

// feed hands a link what the record owes to it, while the link is up: one lane
// for each handoff, in order, so that a stuck handoff stalls no other.
type feed struct {
	link    Link
	rows    federation.Feeds
	wakes   Wakes
	metrics *Metrics
	log     *slog.Logger
	fresh   fresh
}

// maxFresh bounds the steps that are remembered as not tried yet. A link that is
// away for longer than that many steps shows the rest without what is shown once.
const maxFresh = 1 << 14

// fresh is the steps whose first attempt was counted when they were filed, and has
// not been made yet. It may be used concurrently.
type fresh struct {
	mu    sync.Mutex
	steps map[federation.EventID]bool
}

func (f *fresh) add(id federation.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.steps == nil {
		f.steps = map[federation.EventID]bool{}
	}
	if len(f.steps) < maxFresh {
		f.steps[id] = true
	}
}

// take reports whether a step was there, and forgets it.
func (f *fresh) take(id federation.EventID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.steps[id]
	delete(f.steps, id)
	return was
}

// run delivers until ctx ends. A pass that left something behind is repeated
// after a wait, or at once when something new arrives.
func (f *feed) run(ctx context.Context) error {
	wake, stop := f.wakes.Subscribe(FeedTopic(f.link.Name()))
	defer stop()
	waits := newWaits()
	for ctx.Err() == nil {
		again := idleWait
		left, err := f.pass(ctx)
		if err != nil || left > 0 {
			again = waits.NextBackOff()
			f.tellWait(ctx, left, err, again)
		} else {
			waits.Reset()
		}
		timer := time.NewTimer(again)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// tellWait logs that a pass left something behind. Why is logged with each row.
func (f *feed) tellWait(ctx context.Context, left int, err error, again time.Duration) {
	attrs := []slog.Attr{slog.Int("rows", left), slog.String("next", again.Round(time.Millisecond).String())}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	f.log.LogAttrs(ctx, slog.LevelWarn, "deliveries wait", attrs...)
}

// pass goes over the whole feed once and returns how many rows are still owed.
func (f *feed) pass(ctx context.Context) (left int, err error) {
	var after int64
	for ctx.Err() == nil {
		page, err := f.rows.Owed(ctx, f.link.Name(), after, feedPage)
		if err != nil {
			return left, fmt.Errorf("read feed: %w", err)
		}
		left += f.deliver(ctx, page)
		if len(page) < feedPage {
			break
		}
		after = page[len(page)-1].Row
	}
	return left, nil
}

// deliver hands a page to the link, lane by lane, and returns how many rows are
// still owed.
func (f *feed) deliver(ctx context.Context, page []federation.Delivery) (left int) {
	var order []federation.HandoffID
	lanes := map[federation.HandoffID][]federation.Delivery{}
	for _, d := range page {
		id := d.View.ID
		if lanes[id] == nil {
			order = append(order, id)
		}
		lanes[id] = append(lanes[id], d)
	}
	behind := make([]int, len(order))
	var group errgroup.Group
	group.SetLimit(feedLanes)
	for i, id := range order {
		group.Go(func() error {
			behind[i] = f.lane(ctx, lanes[id])
			return nil
		})
	}
	_ = group.Wait() // lanes report by count
	for _, n := range behind {
		left += n
	}
	return left
}

// lane delivers the rows of one handoff in order, up to the first that has to
// wait, and returns how many are still owed.
func (f *feed) lane(ctx context.Context, rows []federation.Delivery) (left int) {
	for i, d := range rows {
		if err := f.row(ctx, d); err != nil {
			if ctx.Err() == nil {
				f.log.LogAttrs(ctx, slog.LevelInfo, "delivery waits", slog.String("event_id", d.Entry.Event.ID.String()),
					slog.String("handoff_id", d.View.ID.String()), slog.Int("attempt", d.Attempt+1), slog.Any("err", err))
			}
			return len(rows) - i
		}
	}
	return 0
}

// row delivers one row and settles it. A nil error means that it is over, well
// or not.
func (f *feed) row(ctx context.Context, d federation.Delivery) error {
	rows := []int64{d.Row}
	shower, ok := f.link.(OnceShower)
	counted := ok && shower.ShowsOnce(d)
	if counted && f.fresh.take(d.Entry.Event.ID) {
		d.Attempt-- // the one that was counted with the step, and is made now
	} else if counted {
		if err := f.rows.Attempt(ctx, f.link.Name(), rows); err != nil {
			return fmt.Errorf("count attempt: %w", err)
		}
	}
	outcome := "delivered"
	if err := f.link.Deliver(ctx, d); err != nil {
		refused, ok := errors.AsType[*federation.RefusalError](err)
		if !ok {
			return f.failed(ctx, rows, counted, err)
		}
		outcome = "refused"
		f.log.LogAttrs(ctx, slog.LevelWarn, "delivery refused", slog.String("event_id", d.Entry.Event.ID.String()),
			slog.String("handoff_id", d.View.ID.String()), slog.String("reason", refused.Error()))
	}
	_, live := f.link.(Placer) // its people see what it delivers
	if _, replays := f.link.(Replayer); replays {
		live = false // and say so themselves
	}
	settled := federation.Settlement{Refused: outcome == "refused", Shown: live && outcome == "delivered", At: time.Now()}
	if err := f.rows.Settle(ctx, f.link.Name(), rows, settled); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	f.metrics.Outcomes.WithLabelValues(f.link.Network(), outcome).Inc()
	if outcome == "delivered" {
		f.metrics.Deliver.WithLabelValues(f.link.Network()).Observe(settled.At.Sub(d.Entry.Filed).Seconds())
	}
	return nil
}

// failed counts an attempt that was not counted before, and returns why it failed.
func (f *feed) failed(ctx context.Context, rows []int64, counted bool, err error) error {
	if counted || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, f.rows.Attempt(ctx, f.link.Name(), rows))
}
