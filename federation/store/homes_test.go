package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runHomes(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	runRulings(t, open)
	runForks(t, open)
	runShared(t, open)
	runSharedUnrouted(t, open)
	runOfHome(t, open)
	runMailboxLocations(t, open)
	runKnownHomes(t, open)
	runMisbehaviors(t, open)
}

// runRulings is about the chain of hashes over a log, and the rulings kept with it.
func runRulings(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	offer := federationtest.Offer(1, ada, bob)
	accept := federationtest.Step(2, offer, federation.Accept, bob)
	t.Run("each step adds a link to the chain", func(t *testing.T) {
		record := open(t)
		first := federationtest.File(offer, federation.View{})
		second := federationtest.File(accept, first.View)
		mustAppend(t, record, first)
		mustAppend(t, record, second)
		var want [32]byte
		for version, ev := range []federation.Event{offer, accept} {
			want = federation.Link(want, ev.Signature.Document)
			if got, err := record.Chain(t.Context(), offer.ID, federation.Version(version+1)); err != nil || got != want {
				t.Errorf("link %d is %x, %v; want %x", version+1, got, err, want)
			}
		}
		for id, version := range map[federation.HandoffID]federation.Version{offer.ID: 3, federationtest.ID(9): 1} {
			if _, err := record.Chain(t.Context(), id, version); !errors.Is(err, federation.ErrNotFound) {
				t.Errorf("link %d of %s: %v, want ErrNotFound", version, id, err)
			}
		}
	})
	t.Run("the ruling is kept with its step", func(t *testing.T) {
		record := open(t)
		first := federationtest.File(offer, federation.View{})
		first.Ruling = &federation.Ruling{Document: "it is so", Signature: "ed25519:k:s"}
		mustAppend(t, record, first)
		mustAppend(t, record, federationtest.File(accept, first.View))
		document, signature, err := record.RulingOn(t.Context(), offer.ID, 1)
		if err != nil || document != "it is so" || signature != "ed25519:k:s" {
			t.Errorf("RulingOn = %q, %q, %v", document, signature, err)
		}
		if _, _, err := record.RulingOn(t.Context(), offer.ID, 2); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("of a step without one: %v, want ErrNotFound", err)
		}
	})
	t.Run("a ruling goes with its handoff, and the proof of a fork stays", func(t *testing.T) {
		record := open(t)
		first := federationtest.File(offer, federation.View{})
		first.Ruling = &federation.Ruling{Document: "it is so", Signature: "s"}
		mustAppend(t, record, first)
		mustAppend(t, record, federationtest.File(federationtest.Step(2, offer, federation.Cancel, ada), first.View))
		mustAppend(t, record, federationtest.File(federationtest.Offer(8, ada, bob), federation.View{})) // from which events are numbered on
		if err := record.KeepFork(t.Context(), federation.Fork{Home: elsewhere, Handoff: offer.ID, Version: 2, Found: federationtest.At(3)}); err != nil {
			t.Fatal(err)
		}
		if n, _, err := record.Prune(t.Context(), federationtest.At(1).Add(time.Hour), federationtest.At(9).Add(time.Hour), "", 10); err != nil || n != 1 {
			t.Fatalf("pruned %d, %v; want 1", n, err)
		}
		if _, _, err := record.RulingOn(t.Context(), offer.ID, 1); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("RulingOn: %v, want ErrNotFound", err)
		}
		if forked, err := record.Forked(t.Context(), offer.ID); err != nil || !forked {
			t.Errorf("Forked = %v, %v; want the proof", forked, err)
		}
	})
}

func runForks(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("the first proof of a fork is kept", func(t *testing.T) {
		record := open(t)
		fork := func(n int, home federation.HomeID) federation.Fork {
			return federation.Fork{
				Home: home, Handoff: federationtest.ID(n), Version: 2, Found: federationtest.At(n),
				First:  federation.Ruling{Home: home, Handoff: federationtest.ID(n), Event: federationtest.ID(n + 1), Version: 2, Chain: [32]byte{1}, Filed: federationtest.At(n), Document: "one", Signature: "s"},
				Second: federation.Ruling{Home: home, Handoff: federationtest.ID(n), Event: federationtest.ID(n + 2), Version: 2, Chain: [32]byte{2}, Filed: federationtest.At(n), Document: "two", Signature: "s"},
			}
		}
		older, newer, other := fork(10, elsewhere), fork(20, elsewhere), fork(30, "other.example")
		again := older
		again.Found, again.Version = federationtest.At(99), 5
		for _, f := range []federation.Fork{older, newer, other, again} {
			if err := record.KeepFork(t.Context(), f); err != nil {
				t.Fatalf("KeepFork: %v", err)
			}
		}
		forks, err := record.Forks(t.Context(), elsewhere, 10)
		if d := diff([]federation.Fork{newer, older}, forks); err != nil || d != "" {
			t.Errorf("Forks (%v, -want +got):\n%s", err, d)
		}
		if forks, err := record.Forks(t.Context(), elsewhere, 1); err != nil || len(forks) != 1 {
			t.Errorf("Forks of 1 returns %d, %v", len(forks), err)
		}
		for id, want := range map[federation.HandoffID]bool{older.Handoff: true, federationtest.ID(1): false} {
			if got, err := record.Forked(t.Context(), id); err != nil || got != want {
				t.Errorf("Forked(%s) = %v, %v; want %v", id, got, err, want)
			}
			step := federation.Event{Handoff: id, ID: federationtest.ID(99), From: ada}
			if snap(t, record, federation.SnapshotQuery{Step: step, Version: 1}).Forked != want {
				t.Errorf("the snapshot for a ruled step of %s says that it is forked: %v, want %v", id, !want, want)
			}
		}
	})
}

func runShared(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("what a home was told of is read page by page", func(t *testing.T) {
		record := open(t)
		ids := []federation.HandoffID{federationtest.ID(1), federationtest.ID(3), federationtest.ID(5), federationtest.ID(7), federationtest.ID(9), federationtest.ID(11)}
		const refused, unanswered, untried = 2, 4, 5
		for n, id := range ids {
			f := federationtest.File(federationtest.Offer(2*n+1, ada, bob), federation.View{})
			f.Links = []string{string(elsewhere)}
			if n == 1 {
				f.Links = []string{"other.example"}
			}
			mustAppend(t, record, f)
			rows, err := record.Rows().PendingOf(t.Context(), f.Links[0], id.String(), 1)
			if err != nil || len(rows) != 1 {
				t.Fatalf("PendingOf: %d rows, %v", len(rows), err)
			}
			how := federation.Settlement{At: federationtest.At(n)}
			switch n {
			case refused:
				how.State = federation.DeliveryRefused
			case unanswered:
				if err := record.Rows().Failed(t.Context(), f.Links[0], rows[0].Row, federation.Failure{Reason: "no answer", Next: federationtest.At(9)}); err != nil {
					t.Fatal(err)
				}
				continue
			case untried:
				continue
			}
			if err := record.Rows().Settle(t.Context(), f.Links[0], []int64{rows[0].Row}, how); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			after federation.HandoffID
			limit int
			want  []federation.HandoffID
		}{
			{federation.HandoffID{}, 10, []federation.HandoffID{ids[0], ids[3], ids[4]}},
			{federation.HandoffID{}, 1, ids[:1]},
			{ids[0], 10, ids[3:5]},
			{ids[4], 10, nil},
		} {
			told, err := record.Shared(t.Context(), elsewhere, c.after, c.limit)
			if d := diff(c.want, told); err != nil || d != "" {
				t.Errorf("Shared after %s of %d (%v, -want +got):\n%s", c.after, c.limit, err, d)
			}
		}
	})
}

// A restored home gets those back too.
func runSharedUnrouted(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("a home was told of what was delivered to it without a route", func(t *testing.T) {
		record := open(t)
		const eve = federation.DID("did:plc:eve")
		found, other := federationtest.Offer(1, ada, bob), federationtest.Offer(3, ada, eve)
		for n, offer := range []federation.Event{found, other} {
			f := federationtest.File(offer, federation.View{})
			f.Links = []string{federation.UnroutedLink}
			mustAppend(t, record, f)
			rows, err := record.Rows().PendingOf(t.Context(), federation.UnroutedLink, offer.ID.String(), 1)
			if err != nil || len(rows) != 1 {
				t.Fatalf("Lane: %d rows, %v", len(rows), err)
			}
			if err := record.Rows().Settle(t.Context(), federation.UnroutedLink, []int64{rows[0].Row}, federation.Settlement{At: federationtest.At(n)}); err != nil {
				t.Fatal(err)
			}
		}
		for did, home := range map[federation.DID]federation.HomeID{bob: elsewhere, eve: "other.example"} {
			at := federation.MailboxLocation{DID: did, Home: home, Source: federation.LocatedByAnswer, Since: federationtest.At(9)}
			if err := record.KeepMailboxLocation(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		told, err := record.Shared(t.Context(), elsewhere, federation.HandoffID{}, 10)
		if d := diff([]federation.HandoffID{found.ID}, told); err != nil || d != "" {
			t.Errorf("Shared (%v, -want +got):\n%s", err, d)
		}
	})
}

func runOfHome(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("the handoffs of a home are read page by page", func(t *testing.T) {
		record := open(t)
		ids := []federation.HandoffID{federationtest.ID(1), federationtest.ID(3), federationtest.ID(5), federationtest.ID(7)}
		for n := range ids {
			f := federationtest.File(federationtest.Offer(2*n+1, ada, bob), federation.View{})
			if n != 1 {
				f.View.Home, f.View.Remote = elsewhere, true
			}
			mustAppend(t, record, f)
		}
		for _, c := range []struct {
			after federation.HandoffID
			limit int
			want  []federation.HandoffID
		}{
			{federation.HandoffID{}, 10, []federation.HandoffID{ids[0], ids[2], ids[3]}},
			{federation.HandoffID{}, 2, []federation.HandoffID{ids[0], ids[2]}},
			{ids[0], 10, ids[2:]},
			{ids[3], 10, nil},
		} {
			found, err := record.OfHome(t.Context(), elsewhere, c.after, c.limit)
			if d := diff(c.want, found); err != nil || d != "" {
				t.Errorf("OfHome after %s of %d (%v, -want +got):\n%s", c.after, c.limit, err, d)
			}
		}
	})
}

func runMailboxLocations(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("a record knows other homes by a location or by a step that one brought", func(t *testing.T) {
		knows := func(record *registry.Record, want bool) {
			t.Helper()
			if got, err := record.KnowsHomes(t.Context(), "here.example"); err != nil || got != want {
				t.Errorf("KnowsHomes = %t, %v; want %t", got, err, want)
			}
		}
		record := open(t)
		knows(record, false)
		if err := record.KeepMailboxLocation(t.Context(), federation.MailboxLocation{DID: bob, Home: "here.example", Source: federation.LocatedByLogin, Since: federationtest.At(0)}); err != nil {
			t.Fatal(err)
		}
		knows(record, false)
		if err := record.KeepMailboxLocation(t.Context(), federation.MailboxLocation{DID: ada, Home: elsewhere, Source: federation.LocatedByStep, Since: federationtest.At(0)}); err != nil {
			t.Fatal(err)
		}
		knows(record, true)
		record = open(t)
		f := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
		f.Event.Arrival.Network, f.Event.Arrival.Link, f.Event.Arrival.Name = "home", string(elsewhere), "ada"
		mustAppend(t, record, f)
		knows(record, true)
	})
	t.Run("where a DID has its mailbox is what was said last", func(t *testing.T) {
		record := open(t)
		if _, err := record.MailboxLocation(t.Context(), bob); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("of somebody unknown: %v, want ErrNotFound", err)
		}
		var last federation.MailboxLocation
		for n, home := range []federation.HomeID{elsewhere, "other.example", "third.example"} {
			last = federation.MailboxLocation{DID: bob, Home: home, Source: federation.LocatedByAnswer, Since: federationtest.At(n)}
			if n == 1 {
				last.Source, last.Former = federation.LocatedByMove, []federation.HomeID{"former.example", elsewhere}
			}
			if err := record.KeepMailboxLocation(t.Context(), last); err != nil {
				t.Fatalf("KeepMailboxLocation: %v", err)
			}
			got, err := record.MailboxLocation(t.Context(), bob)
			if d := diff(last, got); err != nil || d != "" {
				t.Errorf("MailboxLocation (%v, -want +got):\n%s", err, d)
			}
			for _, to := range []federation.HomeID{"other.example", "former.example", "third.example"} {
				if moved, err := record.HasMoved(t.Context(), elsewhere, to); moved != (n == 1 && to == home) || err != nil {
					t.Errorf("HasMoved to %s after location %d: %t, %v", to, n, moved, err)
				}
			}
		}
	})
}

func runKnownHomes(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("a home is known until it is forgotten", func(t *testing.T) {
		record, ctx := open(t), t.Context()
		other := federation.KnownHome{Home: "b.example", URL: "https://b.example", Path: "https", Since: federationtest.At(1)}
		first := federation.KnownHome{Home: "a.example", URL: "https://a.example", Path: "https", Since: federationtest.At(2)}
		moved := first
		moved.URL, moved.Path, moved.Since = "https://new.example", "relay", federationtest.At(3)
		for _, h := range []federation.KnownHome{other, first, moved} {
			if err := record.KeepHome(ctx, h); err != nil {
				t.Fatalf("KeepHome: %v", err)
			}
		}
		known, err := record.KnownHomes(ctx)
		if d := diff([]federation.KnownHome{moved, other}, known); err != nil || d != "" {
			t.Errorf("KnownHomes (%v, -want +got):\n%s", err, d)
		}
		if err := record.ForgetHome(ctx, "b.example"); err != nil {
			t.Errorf("ForgetHome: %v", err)
		}
		if err := record.ForgetHome(ctx, "b.example"); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("ForgetHome again: %v, want ErrNotFound", err)
		}
		known, err = record.KnownHomes(ctx)
		if d := diff([]federation.KnownHome{moved}, known); err != nil || d != "" {
			t.Errorf("KnownHomes after that (%v, -want +got):\n%s", err, d)
		}
	})
}
