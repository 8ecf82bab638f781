package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// A reader during the write of a step may see the signer as before or after it. Once it is
// acknowledged, no reader sees the earlier state.
func TestCacheIsNoOlderThanAcknowledgedWrites(t *testing.T) {
	t.Parallel()
	const steps, lookers = 100, 4
	record := open(t, t.TempDir(), prometheus.NewRegistry())
	name := func(n int64) string { return fmt.Sprintf("ada%03d", n) }
	var acknowledged atomic.Int64
	var over atomic.Bool
	var looking sync.WaitGroup
	for range lookers {
		looking.Go(func() {
			for !over.Load() {
				least := acknowledged.Load()
				if b, _ := record.Binding(t.Context(), ada); b.Name < name(least) && least > 0 {
					t.Errorf("shown as %q after %q was acknowledged", b.Name, name(least))
					return
				}
			}
		})
	}
	for n := range int64(steps) {
		offer := federationtest.Offer(int(n+1), ada, bob)
		offer.Arrival.Name = name(n + 1)
		if _, err := record.Append(t.Context(), federationtest.File(offer, federation.View{})); err != nil {
			t.Fatal(err)
		}
		acknowledged.Store(n + 1)
	}
	over.Store(true)
	looking.Wait()
}

// A caller that changes an agent may cache it too, and forgets it after the call: the call must not
// end before the change, even if its own caller has left.
func TestCacheAwaitsChangesOfAbsentCallers(t *testing.T) {
	t.Parallel()
	const soon = 200 * time.Millisecond
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	judge := federationtest.NewAgent("judge")
	if err := record.AddAgent(t.Context(), judge); err != nil {
		t.Fatal(err)
	}
	shell, err := raw(t, dir).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	if _, err := shell.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil { // the shell is the only writer
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	changed := make(chan error, 1)
	go func() {
		defer time.AfterFunc(soon, leave).Stop()
		changed <- record.SetShows(ctx, judge.Handle, agents.Shows{Presence: agents.VisiblePublic})
	}()
	<-ctx.Done()
	select {
	case err := <-changed:
		t.Fatalf("ended before it could be written: %v", err)
	case <-time.After(soon):
	}
	if _, err := shell.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-changed; err != nil {
		t.Errorf("SetShows: %v", err)
	}
	if after, err := record.Agent(t.Context(), judge.Handle); err != nil || after.Shows.Presence != agents.VisiblePublic {
		t.Errorf("agent = %+v, %v, want it changed", after, err)
	}
}
