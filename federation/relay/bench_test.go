package relay_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/relay"
)

// BenchmarkWake measures from a wake-up until the waiter runs, while other waiters
// wait for other topics.
func BenchmarkWake(b *testing.B) {
	for _, others := range []int{0, 10_000} {
		b.Run("others="+strconv.Itoa(others), func(b *testing.B) {
			r := relay.Local()
			for i := range others {
				_, stop := r.Subscribe("other." + strconv.Itoa(i))
				defer stop()
			}
			wake, stop := r.Subscribe("scout")
			defer stop()
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				r.Wake("scout")
				<-wake
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}
