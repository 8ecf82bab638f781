package simulation_test

import (
	"context"
	"testing"
	"time"
)

// Each home checks the other one every 30 s, however many batches it could send at the same time.
func TestIdleHomesExchangeOneMessageInHalfAMinute(t *testing.T) {
	r := newRun(t)
	r.inBubble(t, func(ctx context.Context, folder string) {
		w := bareWorld(ctx, r.empty, folder, 1)
		for range 2 {
			w.addSite()
		}
		for _, s := range w.sites {
			s.start() //nolint:contextcheck // the world has it
		}
		time.Sleep(time.Minute) // until the homes are linked, and have compared their histories
		w.mu.Lock()
		w.carrier.seen = nil
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		w.mu.Lock()
		n := len(w.carrier.seen)
		w.mu.Unlock()
		if n < 38 || n > 40 {
			t.Errorf("two idle homes exchange %d messages in ten minutes, want about 40", n)
		}
		for _, s := range w.sites {
			s.stop()
		}
	})
}
