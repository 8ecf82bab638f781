package bridge_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// link is a link that does as its test says.
type link struct {
	mu      sync.Mutex
	runs    []time.Time
	got     []got
	run     func(ctx context.Context, up func()) error
	deliver func(d federation.Delivery) error
	once    bool
}

// got is one call of Deliver.
type got struct {
	Event   federation.EventID
	Attempt int
}

func (*link) Name() string    { return "lab" }
func (*link) Network() string { return "spanningtree" }

func (*link) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return true, nil
}

func (l *link) Run(ctx context.Context, up func()) error {
	l.mu.Lock()
	l.runs = append(l.runs, time.Now())
	l.mu.Unlock()
	return l.run(ctx, up)
}

func (l *link) Deliver(_ context.Context, d federation.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, got{d.Entry.Event.ID, d.Attempt})
	return l.deliver(d)
}

func (l *link) ShowsOnce(federation.Delivery) bool { return l.once }

func (l *link) delivered() []got {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got
}

// wakes wakes its only subscriber.
type wakes chan struct{}

func (w wakes) Wake(...string)                             { w <- struct{}{} }
func (w wakes) Subscribe(string) (<-chan struct{}, func()) { return w, func() {} }

// staysUp is the run of a link whose peer never goes away.
func staysUp(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	return context.Cause(ctx)
}

// house is a supervisor with its link over a record.
type house struct {
	folder     string // of the record
	record     *registry.Record
	link       *link
	wakes      wakes
	registry   *prometheus.Registry
	metrics    *bridge.Metrics
	supervisor *bridge.Supervisor
}

func newHouse(t *testing.T, l *link) *house {
	t.Helper()
	folder := storetest.TempDir(t)
	h := &house{folder: folder, record: storetest.OpenIn(t, folder), link: l, wakes: make(wakes, 16), registry: prometheus.NewRegistry()}
	h.metrics = bridge.NewMetrics(h.registry)
	h.supervisor = bridge.NewSupervisor(l, h.record.Rows(), h.wakes, h.metrics, slog.New(slog.DiscardHandler))
	return h
}

// exec runs a statement on the file of the record, as damage to it.
func (h *house) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(h.folder, "baton.db")+"?_pragma=busy_timeout(5000)")
	if err == nil {
		_, err = db.ExecContext(t.Context(), statement, args...)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// owe files an offer and an answer to it, with a delivery of each to the link, and returns both.
func (h *house) owe(t *testing.T, n int) []federation.EventID {
	t.Helper()
	alice, bob := federationtest.Person("alice"), federationtest.Person("bob")
	offer := federationtest.Offer(n, alice, bob)
	var before federation.View
	var ids []federation.EventID
	for _, ev := range []federation.Event{offer, federationtest.Step(n+1, offer, federation.Accept, bob)} {
		filing := federationtest.File(ev, before)
		filing.Links = []string{"lab"}
		if _, err := h.record.Append(t.Context(), filing); err != nil {
			t.Fatal(err)
		}
		before = filing.View
		ids = append(ids, ev.ID)
	}
	return ids
}

// start runs the supervisor until the test stops it.
func (h *house) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.supervisor.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the supervisor ended with %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

func TestSupervisorDeliversInOrderOnceTheLinkIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error { return nil }})
		ids := h.owe(t, 1)
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		want := []got{{ids[0], 0}, {ids[1], 0}}
		if diff := cmp.Diff(want, h.link.delivered()); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
		if pending, err := h.record.Outbox(t.Context(), "lab", federation.Delivery{}, 10); err != nil || len(pending) != 0 {
			t.Errorf("%d deliveries are still pending (%v)", len(pending), err)
		}
		if !h.supervisor.Up() || testutil.ToFloat64(h.metrics.LinkUp.WithLabelValues("spanningtree", "lab")) != 1 {
			t.Error("the link does not show as up")
		}
	})
}

func TestSupervisorDeliversAfterAWakeUpAndWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: staysUp, deliver: func(federation.Delivery) error { return nil }})
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		h.owe(t, 1)
		h.wakes.Wake()
		synctest.Wait()
		if n := len(h.link.delivered()); n != 2 {
			t.Errorf("%d delivered after a wake-up, want 2", n)
		}
		h.owe(t, 11)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(h.link.delivered()); n != 4 {
			t.Errorf("%d delivered without a wake-up, want 4", n)
		}
	})
}

func TestSupervisorDelaysOnlyTheHandoffOfAWaitingStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := true
		var stuck federation.HandoffID
		h := newHouse(t, &link{run: staysUp, deliver: func(d federation.Delivery) error {
			if away && d.View.ID == stuck {
				return &federation.UnavailableError{What: "peer", Err: errors.New("busy")}
			}
			return nil
		}})
		first, second := h.owe(t, 1), h.owe(t, 11)
		stuck = first[0]
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		seen := map[federation.EventID]int{}
		for _, g := range h.link.delivered() {
			seen[g.Event]++
		}
		if seen[first[0]] == 0 || seen[first[1]] != 0 || seen[second[0]] != 1 || seen[second[1]] != 1 {
			t.Errorf("deliveries %v", seen)
		}
		h.link.mu.Lock()
		away = false
		h.link.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		all := h.link.delivered()
		if last := all[len(all)-1]; last.Event != first[1] {
			t.Errorf("the last delivery was %s, want the held up %s", last.Event, first[1])
		}
	})
}

func TestSupervisorEndsARefusedDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: staysUp, deliver: func(d federation.Delivery) error {
			if d.Entry.Version == 1 {
				return &federation.RefusalError{Code: federation.InvalidTag}
			}
			return nil
		}})
		h.owe(t, 1)
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		if n := len(h.link.delivered()); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		for outcome, want := range map[string]float64{"refused": 1, "delivered": 1} {
			if got := testutil.ToFloat64(h.metrics.Outcomes.WithLabelValues("spanningtree", outcome)); got != want {
				t.Errorf("%s: %v, want %v", outcome, got, want)
			}
		}
	})
}

func TestSupervisorCountsAttempts(t *testing.T) {
	for name, once := range map[string]bool{"of what is shown once, before": true, "of anything else, when they failed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *house
				var during []int
				failures := 2
				h = newHouse(t, &link{run: staysUp, once: once, deliver: func(federation.Delivery) error {
					pending, err := h.record.Outbox(context.WithoutCancel(t.Context()), "lab", federation.Delivery{}, 1)
					if err != nil || len(pending) == 0 {
						return err
					}
					during = append(during, pending[0].Attempt)
					if failures--; failures >= 0 {
						return &federation.UnavailableError{What: "peer", Err: errors.New("busy")}
					}
					return nil
				}})
				h.owe(t, 1)
				stop := h.start(t)
				defer stop()
				time.Sleep(time.Minute)
				synctest.Wait()
				want := []int{0, 1, 2}
				if once {
					want = []int{1, 2, 3}
				}
				if diff := cmp.Diff(want, during[:3]); diff != "" {
					t.Errorf("attempts on record during delivery (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSupervisorMakesACountedFirstAttemptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: staysUp, once: true, deliver: func(federation.Delivery) error { return nil }})
		file := func(n int) federation.EventID {
			filing := federationtest.File(federationtest.Offer(n, federationtest.Person("alice"), federationtest.Person("bob")), federation.View{})
			filing.Links, filing.Once = []string{"lab"}, []string{"lab"}
			if _, err := h.record.Append(t.Context(), filing); err != nil {
				t.Fatal(err)
			}
			return filing.Event.ID
		}
		before := file(1) // by an ended process: it may have been shown
		h.supervisor.Fresh(federationtest.ID(2))
		fresh := file(2)
		stop := h.start(t)
		defer stop()
		synctest.Wait()
		seen := map[federation.EventID]int{}
		for _, g := range h.link.delivered() {
			seen[g.Event] = g.Attempt
		}
		if diff := cmp.Diff(map[federation.EventID]int{before: 1, fresh: 0}, seen); diff != "" {
			t.Errorf("attempts before (-want +got):\n%s", diff)
		}
	})
}

func TestSupervisorRunsALinkAgainWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &link{run: func(context.Context, func()) error { return errors.New("no peer there") }})
		stop := h.start(t)
		time.Sleep(5 * time.Minute)
		stop()
		runs := h.link.runs
		if len(runs) < 8 || len(runs) > 40 {
			t.Fatalf("%d dials in five minutes", len(runs))
		}
		if first, last := runs[1].Sub(runs[0]), runs[len(runs)-1].Sub(runs[len(runs)-2]); first > time.Second || last < 10*time.Second || last > 46*time.Second {
			t.Errorf("the first wait was %s, the last %s", first, last)
		}
		if n := testutil.ToFloat64(h.metrics.Reconnects.WithLabelValues("spanningtree", "lab")); int(n) != len(runs)-1 {
			t.Errorf("%v reconnects counted, %d made", n, len(runs)-1)
		}
	})
}

func TestSupervisorResetsBackoffAfterAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials int
		h := newHouse(t, &link{run: func(_ context.Context, up func()) error {
			if dials++; dials == 10 {
				up()
			}
			return errors.New("gone")
		}})
		stop := h.start(t)
		time.Sleep(10 * time.Minute)
		stop()
		if wait := h.link.runs[10].Sub(h.link.runs[9]); wait > time.Second {
			t.Errorf("after it had been up the wait was %s", wait)
		}
	})
}

func TestMetricsAreWellNamed(t *testing.T) {
	h := newHouse(t, &link{})
	h.metrics.Events.WithLabelValues("spanningtree", "offer", "valid", "filed").Inc()
	h.metrics.Refusals.WithLabelValues("spanningtree", "WRONG_SENDER").Inc()
	problems, err := testutil.GatherAndLint(h.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
