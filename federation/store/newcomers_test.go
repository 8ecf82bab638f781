package store_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runNewcomers(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a DID is known once it signed a step, is an agent or is bound", s.testAcquainted)
	t.Run("a DID that was met is known since then, for an hour", s.testMet)
	t.Run("growth is that of the last hour", s.testGrowth)
	t.Run("the size of a record that grows is sampled once a minute", s.testManySamples)
}

func acquainted(t *testing.T, record *registry.Record, did federation.DID, since time.Time, known bool) {
	t.Helper()
	met, got, err := record.Acquainted(t.Context(), did)
	if err != nil || got != known || !met.Equal(since) {
		t.Errorf("Acquainted(%s) = %v, %v, %v, want %v, %v", did, met, got, err, since, known)
	}
}

func (s suite) testAcquainted(t *testing.T) {
	record := s.open(t)
	agent := federationtest.NewAgent("judge")
	own := agent.OwnDID
	for _, did := range []federation.DID{ada, bob, cleo, agent.DID, own} {
		acquainted(t, record, did, time.Time{}, false)
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	if err := record.AddAgent(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	if err := record.BindName(t.Context(), federation.BoundName{Network: "lab", Name: "cleo", DID: cleo}); err != nil {
		t.Fatal(err)
	}
	for _, did := range []federation.DID{ada, cleo, agent.DID, own} {
		acquainted(t, record, did, time.Time{}, true)
	}
	acquainted(t, record, bob, time.Time{}, false) // it has an inbox, which ada opened
}

func (s suite) testMet(t *testing.T) {
	record := s.open(t)
	f := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	f.Newcomer = ada
	mustAppend(t, record, f)
	later := federationtest.File(federationtest.Offer(2, ada, bob), federation.View{})
	later.Newcomer = ada
	mustAppend(t, record, later)
	for _, at := range []int{50, 60} {
		if err := record.Meet(t.Context(), cleo, federationtest.At(at)); err != nil {
			t.Fatalf("Meet: %v", err)
		}
	}
	acquainted(t, record, ada, f.Filed, true)
	acquainted(t, record, cleo, federationtest.At(50), true)
	first, second := federation.Newcomer{DID: ada, Met: f.Filed}, federation.Newcomer{DID: cleo, Met: federationtest.At(50)}
	for name, tt := range map[string]struct {
		since, limit int
		want         []federation.Newcomer
	}{
		"all": {0, 10, []federation.Newcomer{first, second}}, "the oldest": {0, 1, []federation.Newcomer{first}},
		"later ones": {49, 10, []federation.Newcomer{second}}, "none": {50, 10, nil},
	} {
		got, err := record.MetSince(t.Context(), federationtest.At(tt.since), tt.limit)
		if err != nil || diff(tt.want, got) != "" {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, tt.want)
		}
	}
	if _, err := record.Growth(t.Context(), federationtest.At(50).Add(federation.AcquaintanceAge)); err != nil {
		t.Fatalf("Growth: %v", err)
	}
	acquainted(t, record, cleo, time.Time{}, false) // it never did anything
	acquainted(t, record, ada, time.Time{}, true)
}

// grow files offers of more than a megabyte in all, of which no record makes less by
// compression.
func grow(t *testing.T, record *registry.Record, from int) {
	t.Helper()
	noise, random := make([]byte, 1<<16), rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d", from)))
	for n := range 16 {
		ev := federationtest.Offer(from+n, ada, bob)
		_, _ = random.Read(noise) // never fails
		ev.Signature.Document += base64.StdEncoding.EncodeToString(noise)
		mustAppend(t, record, federationtest.File(ev, federation.View{}))
	}
}

func growth(t *testing.T, record *registry.Record, now time.Time) int64 {
	t.Helper()
	grown, err := record.Growth(t.Context(), now)
	if err != nil {
		t.Fatalf("Growth: %v", err)
	}
	return grown
}

func (s suite) testGrowth(t *testing.T) {
	record := s.open(t)
	if got := growth(t, record, federationtest.At(0)); got != 0 {
		t.Errorf("a record that was opened just now grew by %d bytes", got)
	}
	grow(t, record, 1)
	first := growth(t, record, federationtest.At(61))
	if first < 1<<20 || first > 4<<20 {
		t.Errorf("a record into which a megabyte was filed grew by %d bytes", first)
	}
	grow(t, record, 101)
	both := growth(t, record, federationtest.At(122))
	if both < first+1<<20 || both > 8<<20 {
		t.Errorf("a record into which a second megabyte was filed grew by %d bytes, after %d for the first", both, first)
	}
	hour := federation.AcquaintanceAge
	if got := growth(t, record, federationtest.At(61).Add(hour)); got < 1<<20 || got >= both {
		t.Errorf("an hour after the first megabyte it grew by %d bytes, want about %d", got, both-first)
	}
	if got := growth(t, record, federationtest.At(122).Add(hour)); got != 0 {
		t.Errorf("an hour after the last growth it grew by %d bytes, want 0", got)
	}
}

func (s suite) testManySamples(t *testing.T) {
	record := s.open(t)
	growth(t, record, federationtest.At(0))
	var last int64
	for n := range 5 {
		grow(t, record, 1+100*n)
		for _, second := range []int{61, 71} { // the second one finds nothing new
			got := growth(t, record, federationtest.At(100*n+second))
			if got < last {
				t.Errorf("%s: it grew by %d bytes, after %d before", fmt.Sprint(n, " ", second), got, last)
			}
			last = got
		}
	}
	if last < 5<<20 {
		t.Errorf("a record into which five megabytes were filed grew by %d bytes", last)
	}
}
