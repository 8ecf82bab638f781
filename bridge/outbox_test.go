package bridge_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/delivery"
	"baton/federation/store/deliveries"
)

// counted counts how often it was asked what waits.
type counted struct {
	deliveries.Rows

	mu    sync.Mutex
	stuck int
}

// Stuck is [deliveries.Rows.Stuck].
func (c *counted) Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (string, error) {
	c.mu.Lock()
	c.stuck++
	c.mu.Unlock()
	return c.Rows.Stuck(ctx, link, did, now)
}

func (c *counted) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stuck
}

// A step comes with each DID that is heard: most of the time nothing waits.
func TestWhoIsHeardIsLookedUpWhileSomethingWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := false
		h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error {
			if away {
				return &federation.UnavailableError{What: "peer", Err: errors.New("busy")}
			}
			return nil
		}})
		record := &counted{Rows: h.record.Rows()}
		h.supervisor = bridge.NewSupervisor(h.link, record, h.wakes, h.metrics, slog.New(slog.DiscardHandler))
		stop := h.start(t)
		defer stop()
		heard := func(what string, want int) {
			t.Helper()
			before := record.asked()
			h.supervisor.Heard("")
			synctest.Wait()
			if n := record.asked() - before; n != want {
				t.Errorf("%s the record was asked %d times, want %d", what, n, want)
			}
		}
		synctest.Wait()
		if n := record.asked(); n != 1 {
			t.Errorf("it was asked %d times when the link came up, want 1", n)
		}
		heard("while nothing waits", 0)
		h.link.mu.Lock()
		away = true
		h.link.mu.Unlock()
		h.owe(t, 1)
		h.wakes.Wake()
		synctest.Wait()
		heard("after a failure", 1)
		h.link.mu.Lock()
		away = false
		h.link.mu.Unlock()
		heard("while it still waits", 1)
		if n := len(h.link.delivered()); n != 4 {
			t.Errorf("%d attempts, want 2 that failed and 2 that did not", n)
		}
		heard("before it is known that all was delivered", 1)
		heard("after that", 0)
	})
}

// A step has reached its channel, and its reader returns after some minutes.
func TestLaterStepsPassAStepWhoseReaderIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := true
		var first federation.EventID
		h := newHouse(t, &link{run: staysUp, deliver: func(d federation.Delivery) error {
			if away && d.Entry.Event.ID == first {
				return &delivery.AbsentError{Err: &federation.UnavailableError{What: "link lab", Err: errors.New("no recipient is there")}}
			}
			return nil
		}})
		ids := h.owe(t, 1)
		first = ids[0]
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		rows, err := h.record.Rows().PendingOf(t.Context(), "lab", ids[0].String(), 10)
		if err != nil || len(rows) != 1 || rows[0].Entry.Event.ID != ids[0] || !rows[0].Personal || rows[0].Next.IsZero() {
			t.Fatalf("%v, still waiting are %+v, want the first step only", err, rows)
		}
		before := len(h.link.delivered())
		later := h.owe(t, 10)
		h.wakes.Wake()
		synctest.Wait()
		if n := len(h.link.delivered()) - before; n != len(later) {
			t.Errorf("%d attempts for another handoff of %d steps", n, len(later))
		}
		h.link.mu.Lock()
		away = false
		h.link.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, err := h.record.CountPending(t.Context(), "lab", ids[0]); n != 0 || err != nil {
			t.Errorf("%d steps wait after the reader came back, %v", n, err)
		}
	})
}
