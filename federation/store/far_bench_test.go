//go:build interop

package store_test

import (
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// away is the delay of messages from a gateway to its server: much longer than a commit, so that a
// time in multiples of it is a number of round trips.
const away = 10 * time.Millisecond

// BenchmarkFarPostgres counts the round trips to a PostgreSQL server that one caller waits for when
// it files a step, trips/append, and when it ends the delivery of that step, trips/settle.
func BenchmarkFarPostgres(b *testing.B) {
	server := postgrestest.Start(b)
	record := openPostgres(b, server.Far(b, server.Schema(b), away))
	var appended, settled []time.Duration
	for n := 0; b.Loop(); n++ {
		begun := time.Now()
		entry, err := record.Append(b.Context(), scaleOffer(n, ada, bob))
		if err != nil {
			b.Fatalf("Append: %v", err)
		}
		appended = append(appended, time.Since(begun))
		owed, err := record.Rows().PendingOf(b.Context(), "oftc", entry.Event.Handoff.String(), 1)
		if err != nil || len(owed) != 1 {
			b.Fatalf("PendingOf = %v, %v, want one row", owed, err)
		}
		begun = time.Now()
		if err := record.Rows().Settle(b.Context(), "oftc", []int64{owed[0].Row}, federation.Settlement{At: federationtest.At(5)}); err != nil {
			b.Fatalf("Settle: %v", err)
		}
		settled = append(settled, time.Since(begun))
	}
	b.ReportMetric(float64(median(appended))/float64(away), "trips/append")
	b.ReportMetric(float64(median(settled))/float64(away), "trips/settle")
}
