package store_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/store/registry"
)

// scale is how many handoffs the large record of BenchmarkScale has. The default
// shows that it runs; a million tells something, and takes some minutes to load:
//
//	go test ./federation/store -run=^$ -bench=Scale -benchtime=2000x -timeout=1h -scale=1000000
var scale = flag.Int("scale", 20_000, "handoffs in the large record of BenchmarkScale")

const (
	small      = 10_000 // handoffs in the record that the large one is compared with
	population = 20_000 // DIDs that the handoffs are between
	watched    = 50     // DIDs that are measured
	perWatched = 60     // handoffs that each of these is offered, in either record
	pageLength = 50
)

// BenchmarkReplay is the replay of an inbox of 1,000 entries, in pages as a mailbox
// reads it.
func BenchmarkReplay(b *testing.B) {
	const entries, page = 1000, 256
	record := open(b, b.TempDir(), prometheus.NewRegistry())
	fileOffers(b, record, entries, func(int) (from, to federation.DID) { return ada, bob })
	for b.Loop() {
		n := 0
		for after, more := federation.Cursor(""), true; more; {
			read, err := record.Replay(b.Context(), bob, after, page)
			if err != nil {
				b.Fatalf("Replay: %v", err)
			}
			n += len(read)
			if more = len(read) == page; more {
				after = read[page-1].Cursor
			}
		}
		if n != entries {
			b.Fatalf("%d entries are replayed, want %d", n, entries)
		}
	}
}

// BenchmarkScale compares the most frequent operations in a small record and in a large one,
// in turns, so that a busy machine slows both. The metric x_small is the median in the large
// record as a multiple of the median in the small one.
func BenchmarkScale(b *testing.B) {
	var records [2]*registry.Record
	for i, handoffs := range []int{small, max(small, *scale)} {
		records[i] = open(b, b.TempDir(), prometheus.NewRegistry())
		loadPopulation(b, records[i], handoffs)
	}
	next := *scale + small
	for _, measured := range []struct {
		name string
		op   func(ctx context.Context, record *registry.Record, i int) (int, error)
	}{
		{"inbox", func(ctx context.Context, record *registry.Record, i int) (int, error) {
			entries, err := record.Replay(ctx, watchedDID(i), "", pageLength)
			return len(entries), err
		}},
		{"list", func(ctx context.Context, record *registry.Record, i int) (int, error) {
			views, _, err := record.Handoffs(ctx, federation.Filter{DID: watchedDID(i), State: federation.Offered}, "", pageLength)
			return len(views), err
		}},
		{"submit", func(ctx context.Context, record *registry.Record, i int) (int, error) {
			_, err := record.Append(ctx, scaleOffer(next+i, person(i), person(i*7+1)))
			return pageLength, err
		}},
	} {
		b.Run(measured.name, func(b *testing.B) {
			var took [2][]time.Duration
			for i := 0; b.Loop(); i++ {
				for j, record := range records {
					begun := time.Now()
					if n, err := measured.op(b.Context(), record, i); err != nil || n != pageLength {
						b.Fatalf("%s = %d, %v, want %d", measured.name, n, err, pageLength)
					}
					took[j] = append(took[j], time.Since(begun))
				}
			}
			next += len(took[0])
			b.ReportMetric(float64(median(took[1]))/float64(median(took[0])), "x_small")
			b.ReportMetric(float64(median(took[1])), "ns/large")
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// loadPopulation files offers until a record has so many handoffs, with the watched ones
// spread among them.
func loadPopulation(b *testing.B, record federationtest.Store, handoffs int) {
	b.Helper()
	every := handoffs / (watched * perWatched)
	fileOffers(b, record, handoffs, func(n int) (from, to federation.DID) {
		if n%every == 0 && n/every < watched*perWatched {
			return person(n), watchedDID(n / every)
		}
		return person(n), person(n*7 + 1)
	})
}

func person(n int) federation.DID { return federationtest.Person(fmt.Sprint(n % population)) }

func watchedDID(n int) federation.DID {
	return federationtest.Person(fmt.Sprint("watched ", n%watched))
}

// fileOffers files so many offers, by many callers at once.
func fileOffers(b *testing.B, record federationtest.Store, offers int, between func(n int) (from, to federation.DID)) {
	b.Helper()
	const callers = 64
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < offers; n = int(next.Add(1)) - 1 {
				from, to := between(n)
				if _, err := record.Append(b.Context(), scaleOffer(n, from, to)); err != nil {
					b.Errorf("Append: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// scaleOffer is an offer with a random id, as signers mint it.
func scaleOffer(n int, from, to federation.DID) federation.Filing {
	offer := federationtest.Offer(n, from, to)
	random := federation.DID(offer.ID.String()).Hash()
	copy(offer.ID[6:], random[:10])
	offer.Handoff = offer.ID
	offer.Arrival.MessageID = random
	offer.Signature.Document += random
	f := federationtest.File(offer, federation.View{})
	f.Links = []string{"oftc"}
	return f
}
