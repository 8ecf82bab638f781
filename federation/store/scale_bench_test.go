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

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// scale is how many handoffs the large record of BenchmarkScale has. The default
// shows that it runs; a million tells something, and takes some minutes to load:
//
//	go test ./federation/store -run=^$ -bench=Scale -benchtime=2000x -timeout=1h -scale=1000000
var scale = flag.Int("scale", 20_000, "handoffs in the large record of BenchmarkScale")

const (
	small      = 10_000 // handoffs in the record that the large one is compared with
	population = 20_000 // DIDs that the handoffs are between
	watched    = 50     // measured DIDs
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
			views, _, err := record.Handoffs(ctx, federation.Filter{DIDs: []federation.DID{watchedDID(i)}, State: federation.Offered}, "", pageLength)
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
			reportScale(b, took)
		})
	}
}

// BenchmarkLongHandoff compares reading the snapshot of a step, filing it and reading the entries
// since the step before it, at the end of a short handoff and of a long one, in turns: agents that
// report progress for a day make long ones. It reports the same metrics as BenchmarkScale.
func BenchmarkLongHandoff(b *testing.B) {
	record := open(b, b.TempDir(), prometheus.NewRegistry())
	offers := [2]federation.Event{federationtest.Offer(1, ada, bob), federationtest.Offer(2, ada, bob)}
	var views [2]federation.View
	n := len(offers)
	file := func(i int, ev federation.Event) {
		filing := federationtest.File(ev, views[i])
		if _, err := record.Append(b.Context(), filing); err != nil {
			b.Fatalf("Append: %v", err)
		}
		views[i] = filing.View
	}
	report := func(i int) federation.Event {
		n++
		return federationtest.Step(n, offers[i], federation.Progress, bob)
	}
	for i, steps := range []int{10, 10_000} {
		file(i, offers[i])
		n++
		file(i, federationtest.Step(n, offers[i], federation.Accept, bob))
		for range steps {
			file(i, report(i))
		}
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i := range offers {
			ev := report(i)
			begun := time.Now()
			if _, err := record.Snapshot(b.Context(), federation.SnapshotQuery{Step: ev, Inboxes: true}); err != nil {
				b.Fatalf("Snapshot: %v", err)
			}
			before := views[i].Version
			file(i, ev)
			for entry, err := range record.Log(b.Context(), ev.Handoff, before) {
				if err != nil || entry.Event.ID != ev.ID {
					b.Fatalf("Log yields %s, %v, want the step alone", entry.Event.ID, err)
				}
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	reportScale(b, took)
}

// BenchmarkWaiting compares looking for the due deliveries of a link, and for those to try with a
// participant, between an empty record and one with 10,000 waiting handoffs of that participant. It
// reports the same metrics as BenchmarkScale.
func BenchmarkWaiting(b *testing.B) {
	record := open(b, b.TempDir(), prometheus.NewRegistry())
	links := [2]string{"quiet", "busy"}
	for i, handoffs := range []int{1, 10_000} {
		for n := range handoffs {
			f := scaleOffer(i*handoffs+n, ada, bob)
			f.Links = links[i : i+1]
			if _, err := record.Append(b.Context(), f); err != nil {
				b.Fatalf("Append: %v", err)
			}
		}
		failAll(b, record, links[i])
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i, link := range links {
			begun := time.Now()
			if due, err := record.Rows().Heads(b.Context(), link, federationtest.At(0), pageLength); err != nil || len(due) != 0 {
				b.Fatalf("Heads = %v, %v, want none", due, err)
			}
			if _, err := record.Rows().Stuck(b.Context(), link, ada, federationtest.At(0)); err != nil {
				b.Fatalf("Stuck: %v", err)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	reportScale(b, took)
}

func failAll(b *testing.B, record *registry.Record, link string) {
	b.Helper()
	failed := federation.Failure{Reason: "away", At: federationtest.At(0), Next: federationtest.At(1_000_000)}
	for after, more := (federation.Delivery{}), true; more; {
		owed, err := record.Outbox(b.Context(), link, after, pageLength)
		if err != nil {
			b.Fatalf("Outbox: %v", err)
		}
		for _, d := range owed {
			if err := record.Rows().Failed(b.Context(), link, d.Row, failed); err != nil {
				b.Fatalf("Failed: %v", err)
			}
			after = d
		}
		more = len(owed) > 0
	}
}

func reportScale(b *testing.B, took [2][]time.Duration) {
	b.Helper()
	b.ReportMetric(float64(median(took[1]))/float64(median(took[0])), "x_small")
	b.ReportMetric(float64(median(took[1])), "ns/large")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// loadPopulation files offers until a record has so many handoffs, with the watched ones
// spread among them.
func loadPopulation(b *testing.B, record *registry.Record, handoffs int) {
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

func fileOffers(b *testing.B, record *registry.Record, offers int, between func(n int) (from, to federation.DID)) {
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
