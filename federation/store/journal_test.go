package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func TestJournals(t *testing.T) {
	journals(t, open(t, t.TempDir(), prometheus.NewRegistry()))
}

func journals(t *testing.T, record *registry.Record) {
	t.Helper()
	ctx, due := t.Context(), federationtest.At(100)
	entries := func(texts ...string) (all [][]byte) {
		for _, text := range texts {
			all = append(all, []byte(text))
		}
		return all
	}
	write := func(want error, writes ...federation.JournalWrite) {
		t.Helper()
		if err := record.WriteJournals(ctx, writes); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("WriteJournals: %v, want %v", err, want)
		}
	}
	write(nil, federation.JournalWrite{Name: "x/a", Entries: entries("1", "2"), Due: due}, federation.JournalWrite{Name: "x/b"})
	write(nil, federation.JournalWrite{Name: "x/a", Length: 2, Entries: entries("3"), Due: due.Add(time.Second)}, federation.JournalWrite{Name: "x/b", Entries: entries("4")})
	write(federation.ErrStale, federation.JournalWrite{Name: "x/b", Length: 1, Entries: entries("lost")}, federation.JournalWrite{Name: "x/a", Length: 2, Entries: entries("late")})
	write(federation.ErrStale, federation.JournalWrite{Name: "x/a", Entries: entries("again")})

	for name, want := range map[string][][]byte{"x/a": entries("2", "3"), "x/b": nil, "x/none": nil} {
		got, err := record.Journal(ctx, name, 1, 10)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Journal %s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if length, err := record.JournalLength(ctx, "x/a"); length != 3 || err != nil {
		t.Errorf("JournalLength: %d, %v", length, err)
	}
	if _, err := record.JournalLength(ctx, "x/none"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("JournalLength of none: %v", err)
	}
	for prefix, want := range map[string][]string{"x/": {"x/b"}, "x/a": nil, "y/": nil} {
		got, err := record.JournalNames(ctx, prefix, "x/a", 10)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Journals %s: %v (-want +got):\n%s", prefix, err, diff)
		}
	}
	for by, want := range map[time.Time][]string{due: nil, due.Add(time.Second): {"x/a"}} {
		got, err := record.DueJournals(ctx, "x/", by, 10)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("DueJournals by %s: %v (-want +got):\n%s", by, err, diff)
		}
	}
	if err := record.RemoveJournals(ctx, []string{"x/a", "x/none"}); err != nil {
		t.Errorf("RemoveJournals: %v", err)
	}
	if left, err := record.JournalNames(ctx, "x/", "", 10); len(left) != 1 || err != nil {
		t.Errorf("after RemoveJournals: %v, %v", left, err)
	}
	if gone, err := record.Journal(ctx, "x/a", 0, 10); len(gone) > 0 || err != nil {
		t.Errorf("entries after RemoveJournals: %q, %v", gone, err)
	}
}
