package bridge_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
)

// A step comes with each DID that is heard: most of the time nothing waits. The record is not asked
// then, so that a waiting row unknown to the worker is not found.
func TestOutboxLooksUpReadersOnlyWhileStepsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := false
		h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error {
			if away {
				return &federation.UnavailableError{What: "peer", Err: errors.New("busy")}
			}
			return nil
		}})
		stop := h.start(t)
		defer stop()
		heard := func(what string, want int) {
			t.Helper()
			before := len(h.link.delivered())
			h.supervisor.Heard("")
			synctest.Wait()
			if n := len(h.link.delivered()) - before; n != want {
				t.Errorf("%s there were %d attempts, want %d", what, n, want)
			}
		}
		hide := func(n int) {
			t.Helper()
			id := h.owe(t, n)[0]
			rows, err := h.record.Rows().PendingOf(t.Context(), "lab", id.String(), 1)
			if err != nil || len(rows) != 1 {
				t.Fatalf("pending are %+v, %v", rows, err)
			}
			waits := federation.Failure{Reason: "hidden", At: time.Now(), Next: time.Now().Add(time.Hour)}
			if err := h.record.Rows().Failed(t.Context(), "lab", rows[0].Row, waits); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // it asked when the link came up
		hide(1)
		heard("while nothing waits as far as it knows", 0)
		h.link.mu.Lock()
		away = true
		h.link.mu.Unlock()
		h.owe(t, 11)
		h.wakes.Wake()
		synctest.Wait()
		heard("after a failure", 1)
		h.link.mu.Lock()
		away = false
		h.link.mu.Unlock()
		heard("while it still waits", 4) // both steps, and then both of the other handoff
		heard("before it is known that all was delivered", 0)
		hide(21)
		heard("after that", 0)
	})
}

// A step has reached its channel, and its reader returns after some minutes.
func TestOutboxLetsLaterStepsPassAnAbsentReader(t *testing.T) {
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
