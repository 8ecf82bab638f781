package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"baton/bridge"
	"baton/bridge/server"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/lifecycle"
	"baton/federation/store/registry"
	"baton/federation/store/storetest"
)

// faulty is a record that panics once in a read of each job.
type faulty struct {
	*registry.Record

	mu    sync.Mutex
	calls map[string]int
}

func (f *faulty) once(job string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[job]++; f.calls[job] == 1 {
		var nothing *faulty
		nothing.calls = nil
	}
}

// Due implements [home.Overdue].
func (f *faulty) Due(ctx context.Context, clock federation.Clock, before time.Time, limit int) ([]federation.View, error) {
	f.once("sweep")
	return f.Record.Due(ctx, clock, before, limit)
}

// Prune implements [server.Pruner].
func (f *faulty) Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (int, federation.Cursor, error) {
	f.once("retention")
	return f.Record.Prune(ctx, before, now, after, limit)
}

// DeferredDue implements [federation.Deferrals].
func (f *faulty) DeferredDue(ctx context.Context, now time.Time, limit int) ([]federation.HandoffID, error) {
	f.once("deferral")
	return f.Record.DeferredDue(ctx, now, limit)
}

// Delay implements [server.Deliveries].
func (f *faulty) Delay(ctx context.Context, before, now time.Time, limit int) (int, error) {
	f.once("deliveries")
	return f.Record.Delay(ctx, before, now, limit)
}

// DeadLetters implements [server.DeadLetters].
func (f *faulty) DeadLetters(ctx context.Context, filter federation.DeadFilter, before int64, limit int) ([]federation.DeadLetter, error) {
	f.once("reroute")
	return f.Record.DeadLetters(ctx, filter, before, limit)
}

// Growth implements [server.Growth].
func (f *faulty) Growth(ctx context.Context, now time.Time) (int64, error) {
	f.once("growth")
	return f.Record.Growth(ctx, now)
}

// Untold implements [server.Notices].
func (f *faulty) Untold(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error) {
	f.once("notices")
	return f.Record.Untold(ctx, link, now, limit)
}

// fakeNotifier is a fakeLink that tells notices.
type fakeNotifier struct{ *fakeLink }

func (fakeNotifier) Notify(context.Context, federation.Notice) error { return nil }

// Each job and a task panic once: they run again, and the gateway goes on.
func TestRunContainsFaultsOfJobsAndTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := &faulty{Record: storetest.Open(t), calls: map[string]int{}}
		strangers, rates := home.NewStrangers(), home.NewRates()
		metrics, log, start := bridge.NewMetrics(prometheus.NewRegistry()), &bytes.Buffer{}, time.Now()
		clock := server.NewClock(server.ClockConfig{
			Wall: time.Now, Uptime: func() time.Duration { return time.Since(start) }, Mark: filepath.Join(t.TempDir(), "clock"),
			Newest: start.AddDate(-1, 0, 0), // it is in doubt until NTP confirms it
			Synced: func() bool { record.once("clock"); return true },
		}, slog.New(slog.DiscardHandler))
		g := server.New(server.Deps{
			Handoffs: record, Participants: noParticipants{}, Names: noNames{}, Notices: record, Deliveries: record, Deferred: record, Outbox: record, DeadLetters: record,
			Blocks: record, Pruner: record, Growth: record, Counts: record, Leases: record,
			Keys: noKeys{}, Addresses: noRates{}, DIDs: rates, Strangers: strangers,
			Wakes: noWakes{}, Metrics: metrics, Clock: clock, Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		g.Configure(server.Config{Retention: defaultRetention(), Home: &home.Home{
			Rules: home.Rules{ID: "gw.test", Kinds: lifecycle.Shipped()}, Snapshots: record, Log: record, Overdue: record, Rulings: record, Entropy: rand.Reader,
			Route: g.Links().Route, Offers: record, Same: g.Same, Rates: rates, Strangers: strangers,
		}})
		ctx, stop := context.WithCancel(t.Context())
		g.Links().Apply(ctx, []server.Entry{{Link: fakeNotifier{&fakeLink{name: "lab"}}}})
		ended := make(chan error, 1)
		go func() {
			ended <- g.Run(ctx, func(ctx context.Context) error {
				record.once("task")
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the gateway ended: %v", err)
		default:
		}
		jobs := []string{
			"job clock", "job growth", "job notices", "job reroute", "job sweep", "job retention", "job deferral", "job deliveries", "task",
		}
		for _, job := range jobs {
			if n := testutil.ToFloat64(metrics.Faults.WithLabelValues(job)); n != 1 {
				t.Errorf("%v faults of %s are counted, want 1", n, job)
			}
			record.mu.Lock()
			if n := record.calls[strings.TrimPrefix(job, "job ")]; n < 2 {
				t.Errorf("%s ran %d times", job, n)
			}
			record.mu.Unlock()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "fault contained"); n != len(jobs) || strings.Count(log.String(), "fault_test.go") < n {
			t.Errorf("%d faults are logged, want %d, each with its stack", n, len(jobs))
		}
	})
}
