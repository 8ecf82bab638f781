package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func fail() { panic("a fault") }

// Each job and a task panic: they run again, and the gateway goes on.
func TestRunContainsFaultsOfJobsAndTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := storetest.Open(t)
		record := &registry.Record{Record: &store.Record{Outboxes: opened.Outboxes}} // a call of any other part panics
		metrics, log, start := bridge.NewMetrics(prometheus.NewRegistry()), &bytes.Buffer{}, time.Now()
		clock := server.NewClock(server.ClockConfig{
			Wall: time.Now, Uptime: func() time.Duration { return time.Since(start) }, Mark: filepath.Join(t.TempDir(), "clock"),
			Newest: start.AddDate(-1, 0, 0), // it is in doubt until NTP confirms it
			Synced: func() bool { fail(); return true },
		}, slog.New(slog.DiscardHandler))
		g := newGateway(record, func(d *server.Deps, _ *home.Home) {
			d.Clock, d.Metrics, d.Log = clock, metrics, slog.New(slog.NewTextHandler(log, nil))
			d.Links = server.NewLinkSet(server.LinkDeps{Outbox: record.Rows(), RunExclusive: opened.RunExclusive, PubSub: d.PubSub, Metrics: d.Metrics, Log: d.Log})
			d.Locator = routing.New(routing.Config{Peers: server.HomeLinks{Links: d.Links}, Outboxes: struct{ routing.Outboxes }{}}) // a call panics
		})
		ctx, stop := context.WithCancel(t.Context())
		g.Links().Apply(ctx, []server.Entry{{Link: &fakeLink{name: "lab"}}})
		ended := make(chan error, 1)
		go func() {
			ended <- g.Run(ctx, func(ctx context.Context) error {
				fail()
				<-ctx.Done()
				return nil
			})
		}()
		jobs := []string{
			"job clock", "job growth", "job reroute", "job sweep", "job retention", "job deferral", "job deliveries", "task",
		}
		time.Sleep(time.Minute) // growth is measured every ten seconds, and a job waits five after a fault
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the gateway ended: %v", err)
		default:
		}
		total := 0
		for _, job := range jobs {
			n := int(testutil.ToFloat64(metrics.Faults.WithLabelValues(job)))
			if total += n; n < 2 {
				t.Errorf("%d faults of %s are counted, want several: it runs again after each", n, job)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "fault contained"); n != total || strings.Count(log.String(), "bridge/server/run.go") < n {
			t.Errorf("%d faults are logged, want %d, each with its stack", n, total)
		}
	})
}
