package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/federationtest"
)

// Whoever looks while a step is written may be shown the signer as before or after it. Once
// it is acknowledged, nobody is shown what was before.
func TestWhatIsRememberedIsNoOlderThanWhatWasAcknowledged(t *testing.T) {
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
