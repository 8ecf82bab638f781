package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Each snapshot shows such a step in both the view and the log, or in neither.
func runNewSignerSnapshot(t *testing.T, record *registry.Record) {
	t.Helper()
	for n := 1; n <= 300; n++ {
		offer := federationtest.Offer(n, federation.DID(fmt.Sprintf("did:plc:new%d", n)), bob)
		filed := make(chan error, 1)
		go func() {
			_, err := record.Append(t.Context(), federationtest.File(offer, federation.View{}))
			filed <- err
		}()
		for there := false; !there; {
			got := snap(t, record, federation.SnapshotQuery{Step: offer})
			if there = got.Filed != nil; got.View.Exists() != there {
				t.Fatalf("step %d: the view is %+v, and the filed step %+v", n, got.View, got.Filed)
			}
		}
		if err := <-filed; err != nil {
			t.Fatal(err)
		}
	}
}

func runSnapshots(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("a step of a handoff without a log", func(t *testing.T) {
		got := snap(t, open(t), federation.SnapshotQuery{Step: federationtest.Offer(1, ada, bob), OpenOf: ada, Inboxes: true, Version: 1})
		if d := diff(federation.Snapshot{}, got); d != "" {
			t.Errorf("snapshot (-want +got):\n%s", d)
		}
	})
	t.Run("a step that is on file", func(t *testing.T) { runFiledSnapshot(t, open(t)) })
	t.Run("bytes of one step under the id of another", func(t *testing.T) {
		record := open(t)
		mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
		mustAppend(t, record, federationtest.File(federationtest.Offer(2, ada, bob), federation.View{}))
		mixed := federationtest.Offer(1, ada, bob)
		mixed.ID = federationtest.ID(2)
		if got := snap(t, record, federation.SnapshotQuery{Step: mixed}); got.Filed != nil || got.Used == nil || got.Used.Code != federation.EventIDInUse {
			t.Errorf("filed %+v, used %v", got.Filed, got.Used)
		}
	})
	t.Run("the first step of a new signer, while it is filed", func(t *testing.T) { runNewSignerSnapshot(t, open(t)) })
	t.Run("a step that was pruned", func(t *testing.T) { runPrunedSnapshot(t, open(t)) })
	t.Run("everything about a step", func(t *testing.T) { checkSnapshot(t, open(t)) })
	t.Run("the chain of a log", func(t *testing.T) { runChainSnapshot(t, open(t)) })
	t.Run("a record that is closed", func(t *testing.T) {
		record := open(t)
		if err := record.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := record.Snapshot(t.Context(), federation.SnapshotQuery{Step: federationtest.Offer(1, ada, bob)})
		if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
			t.Errorf("error is %v, want one wrapping *UnavailableError", err)
		}
	})
}

func runFiledSnapshot(t *testing.T, record *registry.Record) {
	t.Helper()
	offer := federationtest.Offer(1, ada, bob)
	offer.Stamped = false
	first := mustAppend(t, record, federationtest.File(offer, federation.View{}))
	if got := snap(t, record, federation.SnapshotQuery{Step: offer}); got.Used != nil || got.Filed == nil || diff(first, *got.Filed) != "" {
		t.Errorf("filed %+v, used %v, want %+v", got.Filed, got.Used, first)
	}
	again := offer
	again.ID = federationtest.ID(7)
	if got := snap(t, record, federation.SnapshotQuery{Step: again}); got.Filed == nil || got.Filed.Event.ID != federationtest.ID(1) {
		t.Errorf("the same bytes under another id: filed %+v, used %v", got.Filed, got.Used)
	}
	other := offer
	other.Signature.Document = "other bytes"
	if got := snap(t, record, federation.SnapshotQuery{Step: other}); got.Filed != nil || got.Used == nil || got.Used.Code != federation.EventIDInUse {
		t.Errorf("other bytes under the id: filed %+v, used %v", got.Filed, got.Used)
	}
}

func runPrunedSnapshot(t *testing.T, record *registry.Record) {
	t.Helper()
	offer, _ := ended(t, record, 1)
	newestEvent(t, record)
	if pruned(t, record, 4, 10) != 1 {
		t.Fatal("nothing was pruned")
	}
	other := offer.Event
	other.Signature.Document = "other bytes"
	for _, step := range []federation.Event{offer.Event, other} {
		_, known := record.Known(t.Context(), step.From, step.ID, step.Digest())
		want, _ := errors.AsType[*federation.RefusalError](known)
		if got := snap(t, record, federation.SnapshotQuery{Step: step}); got.Filed != nil || want == nil || diff(want, got.Used) != "" {
			t.Errorf("filed %+v, used %+v, want %+v", got.Filed, got.Used, want)
		}
	}
}

// runChainSnapshot is about the chain after each step of a log.
func runChainSnapshot(t *testing.T, record *registry.Record) {
	t.Helper()
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := federationtest.Step(2, offer.Event, federation.Accept, bob)
	mustAppend(t, record, federationtest.File(accept, offer.View))
	for version := range federation.Version(4) {
		got := snap(t, record, federation.SnapshotQuery{Step: accept, Version: version})
		want, err := record.Chain(t.Context(), offer.View.ID, version)
		if err != nil && !errors.Is(err, federation.ErrNotFound) {
			t.Fatal(err)
		}
		if version == 0 {
			want = [32]byte{}
		}
		head, err := record.Chain(t.Context(), offer.View.ID, 2)
		if err != nil || got.Chain != want || got.Head != head {
			t.Errorf("after %d: %x, want %x; head %x, want %x (%v)", version, got.Chain, want, got.Head, head, err)
		}
	}
}

func checkSnapshot(t *testing.T, record *registry.Record) {
	t.Helper()
	offer, replaced := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}), federationtest.File(federationtest.Offer(2, ada, cleo), federation.View{})
	elsewhere := federationtest.File(federationtest.Offer(3, ada, bob), federation.View{})
	for _, f := range []federation.Filing{offer, replaced, elsewhere} {
		mustAppend(t, record, f)
	}
	progress := federationtest.Step(4, offer.Event, federation.Progress, ada)
	progress.Accepts, progress.Replaces, progress.ReplyTo = federationtest.ID(1), federationtest.ID(2), federationtest.ID(3).String()
	held := federation.Pending{Event: withoutBytes(federationtest.Step(5, offer.Event, federation.Accept, bob)), Home: "other.example", Since: federationtest.At(9)}
	later := federation.Pending{Event: withoutBytes(federationtest.Step(6, offer.Event, federation.Decline, bob)), Home: "other.example", Since: federationtest.At(8)}
	for _, each := range []federation.Pending{held, later} {
		if err := record.KeepPending(t.Context(), each, offer.View.Version); err != nil {
			t.Fatal(err)
		}
	}
	got := snap(t, record, federation.SnapshotQuery{Step: progress, OpenOf: ada, Inboxes: true})
	named, err := record.Step(t.Context(), federationtest.ID(1), federationtest.ID(1))
	if err != nil {
		t.Fatal(err)
	}
	use, err := record.Use(t.Context(), bob, ada)
	if err != nil || use.SenderEntries != 2 {
		t.Fatalf("Use = %+v, %v", use, err)
	}
	want := federation.Snapshot{
		View: offer.View, Named: &named, Replaced: replaced.View, Reference: federationtest.ID(3), Pending: []federation.Pending{held, later}, Open: 3,
		Inboxes: map[federation.DID]federation.InboxUse{bob: use}, Head: got.Head,
	}
	if d := diff(want, got); d != "" {
		t.Errorf("snapshot (-want +got):\n%s", d)
	}
	next := federationtest.Offer(7, ada, bob)
	next.ReplyTo = "no such message"
	got = snap(t, record, federation.SnapshotQuery{Step: next, Inboxes: true})
	if d := diff(federation.Snapshot{Inboxes: want.Inboxes}, got); d != "" {
		t.Errorf("of an offer (-want +got):\n%s", d)
	}
}

func snap(t *testing.T, record *registry.Record, q federation.SnapshotQuery) federation.Snapshot {
	t.Helper()
	s, err := record.Snapshot(t.Context(), q)
	if err != nil {
		t.Fatalf("Snapshot(%s %s): %v", q.Step.Verb, q.Step.ID, err)
	}
	return s
}
