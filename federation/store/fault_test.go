package store_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// Writes of several callers share a transaction. A panic in one write reaches only its caller.
func TestWritePanicFailsOnlyItself(t *testing.T) {
	t.Parallel()
	db, err := engine.Open(t.Context(), filepath.Join(t.TempDir(), "baton.db"), nil, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var callers sync.WaitGroup
	for n := range 40 {
		callers.Go(func() {
			err := fault.Catch(func() error {
				return db.Write(t.Context(), func(ctx context.Context, q engine.Tx) error {
					if err := q.Put(ctx, `INSERT INTO audit (at, actor, what, subject, reason) VALUES (?, '', '', '', '')`, n); err != nil {
						return err
					}
					if n%4 == 0 {
						panic("injected")
					}
					return nil
				})
			})
			if caught := fault.Of(err) != nil; caught != (n%4 == 0) {
				t.Errorf("write %d ends with %v", n, err)
			}
		})
	}
	callers.Wait()
	var rows, wrong int
	if err := db.Reads().Row(t.Context(), `SELECT count(*), coalesce(sum(at % 4 = 0), 0) FROM audit`, nil, &rows, &wrong); err != nil || rows != 30 || wrong != 0 {
		t.Errorf("%d rows, %d of writes that panicked, %v", rows, wrong, err)
	}
}
