package store_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runKeys(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("an empty record knows no key", s.testNoKeys)
	t.Run("each source keeps its own windows", s.testSources)
	t.Run("a key that a whole report leaves out ends, and may begin again", s.testRotation)
	t.Run("a source says from when a key does not sign any more", s.testStatedEnd)
	t.Run("an older report ends nothing", s.testOldReport)
	t.Run("of two revocations the earlier holds", s.testRevocation)
	t.Run("a source cannot fill the record", s.testTooManyKeys)
}

func report(second int, names ...string) federation.KeyReport {
	r := federation.KeyReport{DID: ada, Origin: federation.DocumentKey, Via: "https://ada.example", Whole: true, At: federationtest.At(second)}
	for _, name := range names {
		r.Keys = append(r.Keys, federation.ReportedKey{Public: named(name)})
	}
	return r
}

func named(name string) ed25519.PublicKey { return federationtest.Key(federation.DID(name)) }

func window(r federation.KeyReport, name string, since, seen, until int) federation.KeyWindow {
	w := federation.KeyWindow{
		DID: r.DID, Public: named(name), KeyID: federation.KeyID(named(name)), Origin: r.Origin, Via: r.Via,
		Since: federationtest.At(since), Seen: federationtest.At(seen),
	}
	if until != 0 {
		w.Until = federationtest.At(until)
	}
	return w
}

func mustLearn(t *testing.T, record federation.Keys, reports ...federation.KeyReport) {
	t.Helper()
	for _, r := range reports {
		if err := record.Learn(t.Context(), r); err != nil {
			t.Fatalf("Learn at %v: %v", r.At, err)
		}
	}
}

func checkHistory(t *testing.T, record federation.Keys, want ...federation.KeyWindow) {
	t.Helper()
	got, err := record.History(t.Context(), ada)
	if err != nil {
		t.Fatalf("History: %v", err)
	}
	if d := diff(federation.KeyHistory(want), got); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
}

func (s suite) testNoKeys(t *testing.T) {
	record := s.open(t)
	mustLearn(t, record, report(1))
	checkHistory(t, record)
}

func (s suite) testSources(t *testing.T) {
	record := s.open(t)
	document, client := report(1, "a"), report(2, "a")
	client.Origin, client.Via, client.Whole = federation.ClientKey, "oftc", false
	another := client
	another.Via, another.At = "libera", federationtest.At(3)
	stranger := report(4, "a")
	stranger.DID = bob
	mustLearn(t, record, document, client, another, stranger, report(5))
	checkHistory(t, record, window(document, "a", 1, 1, 5), window(client, "a", 2, 2, 0), window(another, "a", 3, 3, 0))
}

func (s suite) testRotation(t *testing.T) {
	record := s.open(t)
	r := report(1, "a", "a")
	mustLearn(t, record, r, report(2, "a"), report(3, "b"), report(4, "b"), report(5, "a", "b"))
	checkHistory(t, record, window(r, "a", 1, 2, 3), window(r, "b", 3, 5, 0), window(r, "a", 5, 5, 0))
}

func (s suite) testStatedEnd(t *testing.T) {
	record := s.open(t)
	ofRegistry := func(second, until int) federation.KeyReport {
		r := report(second, "a")
		r.Origin, r.Via, r.Keys[0].Until = federation.NetworkKey, "peer.example", federationtest.At(until)
		return r
	}
	r := ofRegistry(1, 10)
	mustLearn(t, record, r, ofRegistry(2, 20), ofRegistry(3, 8), ofRegistry(9, 8))
	checkHistory(t, record, window(r, "a", 1, 3, 8))
}

func (s suite) testOldReport(t *testing.T) {
	record := s.open(t)
	r := report(5, "a")
	mustLearn(t, record, r, report(3, "b"), report(4))
	older := report(3, "b")
	checkHistory(t, record, window(older, "b", 3, 3, 4), window(r, "a", 5, 5, 0))
}

func (s suite) testRevocation(t *testing.T) {
	record := s.open(t)
	r := report(1, "a")
	mustLearn(t, record, r)
	id := federation.KeyID(named("a"))
	for _, second := range []int{4, 3, 5, 3} {
		if err := record.Revoke(t.Context(), ada, id, federationtest.At(second)); err != nil {
			t.Fatalf("Revoke: %v", err)
		}
	}
	mustLearn(t, record, report(6, "a"))
	history, err := record.History(t.Context(), ada)
	if err != nil {
		t.Fatalf("History: %v", err)
	}
	all := func(federation.KeyWindow) bool { return true }
	for second, want := range map[int]federation.KeyStanding{
		0: federation.KeyGood, 2: federation.KeyGood, 3: federation.KeyEnded, 9: federation.KeyEnded,
	} {
		if got := history.Standing(id, federationtest.At(second), all); got != want {
			t.Errorf("at second %d the standing is %d, want %d", second, got, want)
		}
	}
}

func (s suite) testTooManyKeys(t *testing.T) {
	const most = 256
	record := s.open(t)
	r := report(1)
	for i := range most {
		r.Keys = append(r.Keys, federation.ReportedKey{Public: named(fmt.Sprint("k", i))})
	}
	mustLearn(t, record, r)
	if err := record.Learn(t.Context(), report(2, "one more")); !errors.Is(err, federation.ErrTooManyKeys) {
		t.Errorf("Learn: %v, want ErrTooManyKeys", err)
	}
	r.At = federationtest.At(3)
	mustLearn(t, record, r) // keys named before may be named again
	history, err := record.History(t.Context(), ada)
	if err != nil || len(history) != most {
		t.Fatalf("History has %d windows, %v, want %d", len(history), err, most)
	}
	for _, w := range history {
		if !w.Until.Equal(time.Time{}) || !w.Seen.Equal(federationtest.At(3)) {
			t.Fatalf("a window is %+v, want one that the last report confirmed", w)
		}
	}
}
