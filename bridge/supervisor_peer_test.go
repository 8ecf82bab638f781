package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// crowd is a link to a peer that does as its test says, for many lanes at once.
type crowd struct {
	link
	mu    sync.Mutex
	calls map[federation.HandoffID]int
	does  func(ctx context.Context, d federation.Delivery, call int) error
}

func (c *crowd) Run(ctx context.Context, up func()) error { return staysUp(ctx, up) }

func (c *crowd) Deliver(ctx context.Context, d federation.Delivery) error {
	c.mu.Lock()
	c.calls[d.View.ID]++
	call := c.calls[d.View.ID]
	c.mu.Unlock()
	return c.does(ctx, d, call)
}

func (c *crowd) called(id federation.HandoffID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id]
}

// handoffs is how many are under way in the tests of a peer that misbehaves; the first
// one is stuck.
const handoffs = 50

// withPeer returns a house whose peer misbehaves only for the first handoff, with an
// offer of each, and an answer behind the first.
func withPeer(t *testing.T, does func(ctx context.Context, call int) error) (*house, *crowd) {
	t.Helper()
	c := &crowd{calls: map[federation.HandoffID]int{}}
	c.does = func(ctx context.Context, d federation.Delivery, call int) error {
		if d.Entry.Event.ID == federationtest.ID(1) {
			return does(ctx, call)
		}
		return nil
	}
	h := newHouse(t, &c.link)
	h.supervisor = supervise(h, c)
	alice, bob := federationtest.Person("alice"), federationtest.Person("bob")
	for n := 1; n <= handoffs; n++ {
		offer := federationtest.File(federationtest.Offer(n, alice, bob), federation.View{})
		offer.Links, offer.Filed = []string{"lab"}, time.Now()
		filed := []federation.Filing{offer}
		if n == 1 {
			accept := federationtest.File(federationtest.Step(handoffs+1, offer.Event, federation.Accept, bob), offer.View)
			accept.Links, accept.Filed = []string{"lab"}, time.Now()
			filed = append(filed, accept)
		}
		for _, f := range filed {
			if _, err := h.record.Append(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h, c
}

func supervise(h *house, l bridge.Link) *bridge.Supervisor {
	return bridge.NewSupervisor(l, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.DiscardHandler))
}

// state returns the outcome of the first offer, and the notices due to its
// signer.
func (h *house) state(t *testing.T) (federation.Delivered, []federation.NoticeKind) {
	t.Helper()
	became, err := h.record.Deliveries(t.Context(), federationtest.ID(1), []string{"lab"})
	if err != nil || len(became) != 2 {
		t.Fatalf("deliveries %+v, %v", became, err)
	}
	due, err := storetest.DueNotices(t.Context(), h.record, "oftc", time.Now(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []federation.NoticeKind
	for _, d := range due {
		if n := d.Notice; n.Event.ID == federationtest.ID(1) {
			kinds = append(kinds, n.Kind)
		}
	}
	return became[0], kinds
}

// left returns how many other handoffs wait.
func (h *house) left(t *testing.T) int {
	t.Helper()
	pending, err := h.record.Outbox(t.Context(), "lab", federation.Delivery{}, 2*handoffs)
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, d := range pending {
		if d.View.ID != federationtest.ID(1) {
			others++
		}
	}
	return others
}

func TestSupervisorEndsEachDeliveryWhateverThePeerDoes(t *testing.T) {
	away := func(again time.Duration) error {
		return &federation.UnavailableError{What: "peer", RetryAfter: again, Err: errors.New("busy")}
	}
	for name, tt := range map[string]struct {
		does    func(ctx context.Context, call int) error
		others  time.Duration // by then all others have arrived
		within  time.Duration // by then it is over
		state   federation.DeliveryState
		reason  string
		notices []federation.NoticeKind
		calls   int // for both steps of the handoff
	}{
		"it is slow": {func(context.Context, int) error { time.Sleep(time.Minute); return nil }, 0, 2 * time.Minute, federation.DeliveryDelivered, "", nil, 2},
		"it is down, for ten minutes": {func(_ context.Context, call int) error {
			if call < 20 {
				return away(0)
			}
			return nil
		}, 0, 20 * time.Minute, federation.DeliveryDelivered, "", []federation.NoticeKind{federation.NoticeDelayed, federation.NoticeDelivered}, 21},
		"it says 429 once": {func(_ context.Context, call int) error {
			if call == 1 {
				return away(40 * time.Second)
			}
			return nil
		}, 2 * time.Minute, 2 * time.Minute, federation.DeliveryDelivered, "", nil, 3},
		"it says 500 twice": {func(_ context.Context, call int) error {
			if call <= 2 {
				return away(0)
			}
			return nil
		}, 0, time.Minute, federation.DeliveryDelivered, "", nil, 4},
		"it says 400": {func(context.Context, int) error {
			return &federation.RefusalError{Code: federation.InvalidContext}
		}, 0, time.Second, federation.DeliveryRefused, "invalid-context", []federation.NoticeKind{federation.NoticeUndeliverable}, 2},
		"it says garbage": {func(_ context.Context, call int) error {
			return fmt.Errorf("unreadable: %d", call)
		}, 0, time.Hour, federation.DeliveryDead, "failed", []federation.NoticeKind{federation.NoticeUndeliverable}, 13},
		"it takes it and forgets it": {func(ctx context.Context, call int) error {
			if call == 1 {
				<-ctx.Done()
				return away(0)
			}
			return nil
		}, 0, 5 * time.Minute, federation.DeliveryDelivered, "", nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, c := withPeer(t, tt.does)
				stop := h.start(t)
				defer stop()
				time.Sleep(tt.others)
				synctest.Wait()
				if n := h.left(t); n != 0 {
					t.Errorf("after %s %d of %d others wait", tt.others, n, handoffs-1)
				}
				for over := time.Now().Add(tt.within); time.Now().Before(over); time.Sleep(10 * time.Second) {
					if _, err := h.record.Delay(t.Context(), time.Now().Add(-federation.DelayNotice), time.Now(), 100); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				became, notices := h.state(t)
				if became.State != tt.state || became.Reason != tt.reason {
					t.Errorf("it is %s %q, want %s %q", became.State, became.Reason, tt.state, tt.reason)
				}
				if diff := cmp.Diff(tt.notices, notices); diff != "" {
					t.Errorf("its signer is told (-want +got):\n%s", diff)
				}
				if n := c.called(federationtest.ID(1)); n != tt.calls {
					t.Errorf("%d calls, want %d", n, tt.calls)
				}
				if pending, err := h.record.Outbox(t.Context(), "lab", federation.Delivery{}, 10); err != nil || len(pending) != 0 {
					t.Errorf("still pending are %+v, %v: the deliveries behind it go on", pending, err)
				}
			})
		})
	}
}

func TestSupervisorFloodsNoPeerWithoutItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := withPeer(t, func(context.Context, int) error { return nil })
		h.exec(t, `CREATE TRIGGER full BEFORE UPDATE OF state ON delivery BEGIN SELECT RAISE(ABORT, 'no space left'); END`)
		h.supervisor = bridge.NewSupervisor(c, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.DiscardHandler))
		stop := h.start(t)
		defer stop()
		time.Sleep(time.Minute)
		h.exec(t, `DROP TRIGGER full`)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := c.called(federationtest.ID(2)); n < 2 || n > 20 {
			t.Errorf("%d deliveries of one step in the minute, want some, and fewer and fewer", n)
		}
		if n := h.left(t); n != 0 {
			t.Errorf("%d wait although the record notes again", n)
		}
	})
}

func TestBackoffSurvivesARestartExceptForOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := withPeer(t, func(context.Context, int) error {
			return &federation.UnavailableError{What: "peer", Err: errors.New("down")}
		})
		stop := h.start(t)
		time.Sleep(10 * time.Minute)
		before, _ := h.state(t)
		for time.Until(before.Next) < 5*time.Second { // not while it is due
			time.Sleep(time.Second)
			before, _ = h.state(t)
		}
		stop()
		calls := c.called(federationtest.ID(1))
		if wait := time.Until(before.Next); before.Attempt != calls || before.Reason != "peer unavailable: down" || wait <= 0 || wait > 30*time.Second {
			t.Fatalf("after %d calls it is %+v, next in %s", calls, before, wait)
		}
		h.supervisor = supervise(h, c)
		stop = h.start(t)
		defer stop()
		synctest.Wait()
		after, _ := h.state(t)
		if after.Attempt != calls+1 || !after.Next.After(time.Now().Add(20*time.Second)) {
			t.Errorf("after the restart it is %+v, want one attempt more and no shorter wait", after)
		}
		h.supervisor.Heard("did:plc:sender") // traffic from the peer
		synctest.Wait()
		if again, _ := h.state(t); again.Attempt != calls+2 {
			t.Errorf("after the peer was heard it is %+v, want one attempt more", again)
		}
	})
}

func TestSupervisorDeliversOnlyTheNewestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []federation.Delivery
		h := newHouse(t, &link{run: staysUp, deliver: func(d federation.Delivery) error { got = append(got, d); return nil }})
		alice, bob := federationtest.Person("alice"), federationtest.Person("bob")
		offer := federationtest.Offer(1, alice, bob)
		var view federation.View
		old := time.Now().Add(-time.Minute)
		for n, verb := range []federation.Verb{federation.Offer, federation.Accept, federation.Progress, federation.Progress, federation.Progress, federation.Complete} {
			ev := offer
			if verb != federation.Offer {
				ev = federationtest.Step(n+1, offer, verb, bob)
			}
			f := federationtest.File(ev, view)
			f.Links, f.Filed = []string{"lab"}, old
			if _, err := h.record.Append(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			view = f.View
		}
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		var said []string
		for _, d := range got {
			said = append(said, fmt.Sprintf("%s %d", d.Entry.Event.ID.Short(), d.Skipped))
		}
		short := func(n int) string { return federationtest.ID(n).Short() }
		want := []string{short(1) + " 0", short(2) + " 0", short(5) + " 2", short(6) + " 0"}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("delivered, with how many it stands for (-want +got):\n%s", diff)
		}
		became, err := h.record.Deliveries(t.Context(), offer.ID, []string{"lab"})
		for _, d := range became {
			if d.State != federation.DeliveryDelivered {
				t.Errorf("%s is %s", d.Event, d.State)
			}
		}
		if err != nil || len(became) != 6 {
			t.Errorf("%d deliveries, %v", len(became), err)
		}
	})
}

func TestSupervisorDeliversNothingToAHeldLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := withPeer(t, func(context.Context, int) error { return nil })
		if err := h.record.Hold(t.Context(), federation.PausedQueue{To: "lab", Since: time.Now()}); err != nil {
			t.Fatal(err)
		}
		stop := h.start(t)
		defer stop()
		time.Sleep(time.Minute)
		h.supervisor.Heard("")
		synctest.Wait()
		if n := c.called(federationtest.ID(1)) + c.called(federationtest.ID(2)); n != 0 || h.left(t) != handoffs-1 {
			t.Errorf("%d deliveries while it was held", n)
		}
		if err := h.record.Release(t.Context(), "lab"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := h.left(t); n != 0 {
			t.Errorf("%d wait after it was released", n)
		}
	})
}

func TestPaceFollowsItsPeer(t *testing.T) {
	now := federationtest.At(0)
	p := delivery.NewPace(60)
	taken := 0
	for ; p.Take(now) == 0; taken++ {
	}
	if taken != 60 {
		t.Errorf("%d at once, want a minute's worth", taken)
	}
	if wait := p.Take(now); wait != time.Second {
		t.Errorf("then %s, want 1s", wait)
	}
	p.TooMuch(now, 30*time.Second)
	p.TooMuch(now, 10*time.Second) // of one under way
	if wait := p.Take(now.Add(10 * time.Second)); wait != 20*time.Second {
		t.Errorf("told to come again in 30s, after 10s %s", wait)
	}
	now = now.Add(time.Minute)
	if wait := p.Take(now); wait != 0 {
		t.Errorf("after a minute %s", wait)
	}
	if wait := p.Take(now); wait < 1200*time.Millisecond || wait > 1300*time.Millisecond {
		t.Errorf("the next one after %s, want 1.25s: it is slower now", wait)
	}
	for range 100 {
		p.Took(now)
	}
	now = now.Add(2 * time.Minute)
	for taken = 0; p.Take(now) == 0; taken++ {
	}
	if taken != 60 {
		t.Errorf("%d at once after it took a hundred, want 60 again", taken)
	}
}

func TestSupervisorSkipsUnreadableRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error { return nil }})
		first, second := h.owe(t, 1), h.owe(t, 11)
		h.exec(t, `UPDATE event SET body = '{"verb":' WHERE id = ?`, first[0].String())
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		want := []federation.EventID{first[1], second[0], second[1]}
		var shown []federation.EventID
		for _, g := range h.link.delivered() {
			shown = append(shown, g.Event)
		}
		less := func(a, b federation.EventID) bool { return a.String() < b.String() }
		if diff := cmp.Diff(want, shown, cmpopts.SortSlices(less)); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
		dead, err := h.record.DeadLetters(t.Context(), federation.DeadFilter{Reason: federation.DeadBroken}, 0, 10)
		if err != nil || len(dead) != 1 || dead[0].Event != first[0] || !strings.Contains(dead[0].Why, "unexpected end") {
			t.Errorf("dead letters are %+v, %v; want one for %s", dead, err, first[0])
		}
	})
}
