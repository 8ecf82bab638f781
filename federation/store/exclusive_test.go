package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation/store/registry"
)

func runReplicaLeases(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("a lease of a record without replicas runs at once", func(t *testing.T) {
		record := open(t)
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		begun, ended := make(chan string, 2), make(chan error, 2)
		share := func(ctx context.Context, name string) {
			ended <- record.RunExclusive(ctx, "link lab", func(ctx context.Context) {
				begun <- name
				<-ctx.Done()
			})
		}
		go share(first, "first")
		go share(second, "second")
		if a, b := <-begun, <-begun; a == b {
			t.Errorf("%s began twice", a)
		}
		endFirst()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Alone: %v, want that it was cancelled", err)
		}
		endSecond()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Alone: %v, want that it was cancelled", err)
		}
	})
	t.Run("a lease that was given up can be taken again", func(t *testing.T) {
		record := open(t)
		for range 2 {
			ctx, end := context.WithCancel(t.Context())
			if err := record.RunExclusive(ctx, "link lab", func(context.Context) { end() }); !errors.Is(err, context.Canceled) {
				t.Errorf("Alone: %v, want that it was cancelled", err)
			}
		}
	})
}
