package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/home"
	"baton/federation/lifecycle"
)

// faulty is a record that panics once in a read of each job.
type faulty struct {
	*federationtest.Memory

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
	return f.Memory.Due(ctx, clock, before, limit)
}

// Prune implements [gateway.Pruner].
func (f *faulty) Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (int, federation.Cursor, error) {
	f.once("retention")
	return f.Memory.Prune(ctx, before, now, after, limit)
}

// DeferredDue implements [federation.Deferrals].
func (f *faulty) DeferredDue(ctx context.Context, now time.Time, limit int) ([]federation.HandoffID, error) {
	f.once("deferral")
	return f.Memory.DeferredDue(ctx, now, limit)
}

// Delay implements [gateway.Deliveries].
func (f *faulty) Delay(ctx context.Context, before, now time.Time, limit int) (int, error) {
	f.once("deliveries")
	return f.Memory.Delay(ctx, before, now, limit)
}

// After a panic in each job and in a task, they run again and the gateway goes on.
func TestRunContainsFaultsOfJobsAndTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := &faulty{Memory: federationtest.NewMemory(), calls: map[string]int{}}
		strangers, rates := home.NewStrangers(), home.NewRates()
		metrics, log := bridge.NewMetrics(prometheus.NewRegistry()), &bytes.Buffer{}
		g := gateway.New(gateway.Deps{
			Handoffs: record, Participants: noParticipants{}, Names: noNames{}, Notices: record, Deliveries: record, Deferred: record, Outbox: record, DeadLetters: record,
			Blocks: record, Pruner: record, Growth: record, Counts: record, Leases: record,
			Keys: noKeys{}, Addresses: noRates{}, DIDs: rates, Strangers: strangers,
			Wakes: noWakes{}, Metrics: metrics, Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		g.Configure(gateway.Config{Retention: defaultRetention(), Home: &home.Home{
			Rules: home.Rules{ID: "gw.test", Kinds: lifecycle.Shipped()}, Snapshots: record, Log: record, Overdue: record, Rulings: record, Entropy: rand.Reader,
			Routes: g.Links(), Offers: record, Same: g.Same, Rates: rates, Strangers: strangers,
		}})
		ctx, stop := context.WithCancel(t.Context())
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
		for _, job := range []string{"job sweep", "job retention", "job deferral", "job deliveries", "task"} {
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
		if n := strings.Count(log.String(), "fault contained"); n != 5 {
			t.Errorf("%d faults are logged, want 5", n)
		}
	})
}
