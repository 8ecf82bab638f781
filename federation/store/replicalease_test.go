//go:build interop

package store_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// dutiful are the replicas that hold one lease at this moment.
type dutiful struct {
	t     *testing.T
	now   atomic.Int32
	begun chan int // by which gateway
}

func (d *dutiful) do(gateway int) func(ctx context.Context) {
	return func(ctx context.Context) {
		if n := d.now.Add(1); n != 1 {
			d.t.Errorf("%d gateways do it", n)
		}
		d.begun <- gateway
		<-ctx.Done()
		d.now.Add(-1)
	}
}

// Two replicas share one record. The holder of the lease ends, or loses its session, or the
// server dies: then another replica holds it, and never two.
func partsLeases(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	d := &dutiful{t: t, begun: make(chan int, 16)}
	ends := make([]context.CancelFunc, 2)
	over := make(chan struct{}, len(ends))
	for i := range ends {
		record := openPostgres(t, dsn)
		ctx, end := context.WithCancel(t.Context())
		ends[i] = end
		go func() {
			_ = record.RunExclusive(ctx, "link lab", d.do(i)) // it says that it was cancelled
			over <- struct{}{}
		}()
	}
	first := <-d.begun
	server.Exec(t, dsn, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted`)
	second := <-d.begun
	server.Kill(t)
	server.Run(t)
	third := <-d.begun
	t.Logf("gateways %d, %d, %d", first, second, third)
	ends[third]()
	if fourth := <-d.begun; fourth == third {
		t.Errorf("gateway %d has it again after it ended", fourth)
	}
	for _, end := range ends {
		end()
	}
	for range ends {
		<-over
	}
}
