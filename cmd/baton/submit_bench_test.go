package main_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/translate"
	documents "github.com/baton-gateway/baton/translate/dialect"
	"github.com/baton-gateway/baton/translate/handofftag"
)

// rawTime is how long each raw figure is measured for: with it, that of one run is
// good to a few hundredths.
const rawTime = 500 * time.Millisecond

// BenchmarkSubmit measures a step from its tags to the disk: decode, verify, check,
// append with an inbox and a feed. The metric x_verify is its rate as a multiple of
// that of bare Ed25519 verifications of 1 KiB on all cores, x_fsync as a multiple of
// that of appends of 1 KiB with fsync, both of the same run and disk.
func BenchmarkSubmit(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			dir := b.TempDir()
			verifies, syncs := rawVerifies(b), rawSyncs(b, dir)
			record, err := registry.Open(b.Context(), filepath.Join(dir, "baton.db"), prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			defer record.Close()
			perSecond := submitRate(b, record, callers)
			b.ReportMetric(perSecond/verifies, "x_verify")
			b.ReportMetric(perSecond/syncs, "x_fsync")
		})
	}
}

// submitRate returns how many steps a second are filed in a record, by so many callers.
// It takes the time of the benchmark.
func submitRate(b *testing.B, record *registry.Record, callers int) float64 {
	b.Helper()
	h, steps := newHome(record), signedOffers(b, b.N)
	b.ResetTimer()
	begun := cpuTime(b, 0)
	submitAll(b, judging(h), steps, callers)
	b.StopTimer()
	reportCPU(b, cpuTime(b, 0)-begun, b.N)
	return float64(b.N) / b.Elapsed().Seconds()
}

// submitAll shares steps among callers, which submit them to a gateway or its home.
func submitAll(b *testing.B, submit func(context.Context, federation.Event) error, steps []translate.Tagged, callers int) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(len(steps)); n = next.Add(1) {
				ev, err := handofftag.Codec{}.Decode(steps[n-1])
				if err == nil {
					ev.Arrival = federation.Arrival{Network: "spanningtree", Link: "lab", Name: "alice", Received: time.Now()}
					err = submit(b.Context(), ev)
				}
				if err != nil {
					b.Errorf("submit: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// judging returns how a home takes a step.
func judging(h *home.Home) func(context.Context, federation.Event) error {
	return func(ctx context.Context, ev federation.Event) error {
		_, err := h.Submit(ctx, ev, time.Now())
		return err
	}
}

// newHome returns a home as the program makes it, without limits.
func newHome(record *registry.Record) *home.Home {
	public, private, _ := ed25519.GenerateKey(nil) // never fails
	key := federation.SigningKey{Public: public, DID: "did:web:gw.test", Sign: func(_ context.Context, m []byte) ([]byte, error) {
		return ed25519.Sign(private, m), nil
	}}
	directory := identity.NewDirectory(identity.DirectoryConfig{}, nil, key)
	return &home.Home{
		Rules: home.Rules{ID: "gw.test", Kinds: lifecycle.Shipped(), Limits: home.Limits{ClockSkew: time.Hour, MaxDeadline: 720 * time.Hour, Inbox: federation.InboxLimits{Events: 1 << 30, EventsPerSender: 1 << 30}, OpenHandoffs: 1 << 30}},
		Key:   key, Record: record, Entropy: rand.Reader,
		Keys: identity.NewKeySource(identity.KeySourceConfig{}, directory, nil, record), Route: oneOutbox{}.Route, Rates: home.NewRates(),
		Same:  func(_ context.Context, a, b federation.DID) (bool, error) { return a == b, nil },
		Write: documents.Write, Read: documents.Read,
	}
}

// oneOutbox owes each step to one link.
type oneOutbox struct{}

// Route is the route of [home.Home].
func (oneOutbox) Route(context.Context, federation.Event, federation.View) (federation.Fanout, error) {
	return federation.Fanout{Links: []string{"other"}}, nil
}

// signers are how many people make the offers: as many unfinished ones as each has are
// counted for the next.
const signers = 4096

// signedOffers returns offers as they are on the wire, of about 1 KiB: all to one DID, or
// without one each to the next signer.
func signedOffers(tb testing.TB, n int, to ...federation.DID) []translate.Tagged {
	tb.Helper()
	people := make([]federation.SigningKey, signers)
	for i := range people {
		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			tb.Fatal(err)
		}
		people[i] = federation.SigningKey{Public: public, DID: identity.KeyDID(public), Sign: func(_ context.Context, m []byte) ([]byte, error) {
			return ed25519.Sign(private, m), nil
		}}
	}
	steps := make([]translate.Tagged, n)
	for i := range steps {
		id, offeree := federation.EventID(ulid.Make()), people[(i+1)%signers].DID
		if len(to) > 0 {
			offeree = to[0]
		}
		ev := federation.Event{
			ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, Venue: "#ops", Dialect: federation.HandoffTags,
			From: people[i%signers].DID, To: offeree, Title: "Cite three sources on X", Context: `"` + strings.Repeat("x", 400) + `"`,
			Deadline: time.Now().Add(time.Hour),
		}
		ev.Fields, _ = handofftag.Write(ev)
		ev, err := signing.Seal(tb.Context(), people[i%signers], ev)
		if err != nil {
			tb.Fatal(err)
		}
		steps[i] = translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: translate.Wire(ev, nil)}
	}
	return steps
}

// signedKiB returns a function that verifies a good signature of 1 KiB, the
// size of a step.
func signedKiB(b *testing.B) (verify func() bool) {
	b.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	message := make([]byte, 1024)
	signature := ed25519.Sign(private, message)
	return func() bool { return ed25519.Verify(public, message, signature) }
}

// rawVerifies returns how many signatures of 1 KiB all cores verify in a second.
func rawVerifies(b *testing.B) float64 {
	b.Helper()
	verify := signedKiB(b)
	var done atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for time.Since(begun) < rawTime {
				if !verify() {
					b.Error("a good signature is bad")
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds()
}

// rawSyncs returns how many appends of 1 KiB with fsync the disk does in a second.
func rawSyncs(b *testing.B, dir string) float64 {
	b.Helper()
	file, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	block, done, begun := make([]byte, 1024), 0, time.Now()
	for ; time.Since(begun) < rawTime; done++ {
		if _, err := file.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(done) / time.Since(begun).Seconds()
}
