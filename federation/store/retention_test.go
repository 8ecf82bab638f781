package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runRetention(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("what is over goes with all that belongs to it", s.testPrune)
	t.Run("a handoff that is not over, too young or still to be delivered stays", s.testPruneStays)
	t.Run("a batch is as large as asked for, and the next one goes on from it", s.testPruneBatches)
	t.Run("numbers go on after what was pruned", s.testPruneNumbers)
	t.Run("a pruned step is refused until its id is forgotten", s.testSpent)
	t.Run("messages that were handed out go, but for the newest", s.testPruneMessages)
	t.Run("the message of a handoff goes when that is over", s.testPruneStepMessages)
	t.Run("a cursor that pruning never gave out is unknown", func(t *testing.T) {
		record := open(t)
		if _, _, err := record.Prune(t.Context(), federationtest.At(9), federationtest.At(9), "?", 1); !errors.Is(err, federation.ErrUnknownCursor) {
			t.Errorf("Prune: %v, want ErrUnknownCursor", err)
		}
		if _, _, err := record.PruneMessages(t.Context(), federationtest.At(9), "?", 1); !errors.Is(err, federation.ErrUnknownCursor) {
			t.Errorf("PruneMessages: %v, want ErrUnknownCursor", err)
		}
	})
}

// later is the time of pruning in the suites.
const later = 5000

// pruned prunes handoffs not moved since a moment, a page of a size at a time, and returns their
// number.
func pruned(t *testing.T, record *registry.Record, before, page int) (gone int) {
	t.Helper()
	var after federation.Cursor
	for range 100 {
		n, next, err := record.Prune(t.Context(), federationtest.At(before), federationtest.At(later), after, page)
		if err != nil || n > page {
			t.Fatalf("Prune = %d, %v", n, err)
		}
		if gone, after = gone+n, next; next == "" {
			return gone
		}
	}
	t.Fatal("Prune does not end")
	return 0
}

func ended(t *testing.T, record *registry.Record, n int) (offer, decline federation.Filing) {
	t.Helper()
	offer = federationtest.File(federationtest.Offer(n, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	decline = federationtest.File(federationtest.Step(n+1, offer.Event, federation.Decline, bob), offer.View)
	mustAppend(t, record, decline)
	return offer, decline
}

func newestEvent(t *testing.T, record *registry.Record) {
	t.Helper()
	mustAppend(t, record, federationtest.File(federationtest.Offer(later-1, cleo, ""), federation.View{}))
}

func (s suite) testPrune(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := federationtest.File(federationtest.Vouch(federationtest.Step(2, offer.Event, federation.Accept, bob), "original"), offer.View)
	receipt := federationtest.Confirm(3, accept.Event)
	accept.Receipt = &receipt
	mustAppend(t, record, accept)
	rendition := *federationtest.Vouch(federationtest.Offer(9, ada, bob), "rendition").Evidence
	if err := record.Keep(t.Context(), offer.View.ID, rendition); err != nil {
		t.Fatalf("Keep: %v", err)
	}
	mustAppend(t, record, federationtest.File(federationtest.Step(4, offer.Event, federation.Complete, bob), accept.View))
	newestEvent(t, record)
	if gone, err := record.Pruned(t.Context(), offer.View.ID); gone || err != nil {
		t.Errorf("before, Pruned = %t, %v", gone, err)
	}
	if n := pruned(t, record, 4, 10); n != 1 {
		t.Fatalf("%d handoffs are pruned, want 1", n)
	}
	if gone, err := record.Pruned(t.Context(), offer.View.ID); !gone || err != nil {
		t.Errorf("Pruned = %t, %v", gone, err)
	}
	if view, err := record.View(t.Context(), offer.View.ID); err != nil || view.Exists() {
		t.Errorf("View = %+v, %v, want none", view, err)
	}
	if steps := log(t, record, offer.View.ID); len(steps) != 0 {
		t.Errorf("the log has %d steps", len(steps))
	}
	for _, ref := range []string{federationtest.ID(1).String(), federationtest.ID(2).String(), federationtest.ID(3).String(), "msg-4"} {
		if _, err := record.Reference(t.Context(), ref); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("Reference(%s): %v, want ErrNotFound", ref, err)
		}
	}
	for _, digest := range [][32]byte{accept.Event.Evidence.Digest, rendition.Digest} {
		if _, err := record.Evidence(t.Context(), digest); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("Evidence: %v, want ErrNotFound", err)
		}
	}
	for _, did := range []federation.DID{ada, bob} {
		if entries := replay(t, record, did, "", 10); len(entries) != 0 {
			t.Errorf("the inbox of %s has %d entries", did, len(entries))
		}
		if n, size, err := record.Waiting(t.Context(), did); err != nil || n != 0 || size != 0 {
			t.Errorf("for %s wait %d entries of %d bytes, %v", did, n, size, err)
		}
		if found := listed(t, record, federation.Filter{DIDs: []federation.DID{did}}, 10); len(found) != 0 {
			t.Errorf("of %s are listed %d", did, found)
		}
	}
	if found, err := record.Find(t.Context(), federationtest.ID(1).Short()); err != nil || len(found) != 0 {
		t.Errorf("Find = %v, %v, want none", found, err)
	}
	if _, err := record.Binding(t.Context(), bob); err != nil {
		t.Errorf("Binding: %v: who somebody is outlives the handoff", err)
	}
}

func (s suite) testPruneStays(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Offer(2, ada, ""), federation.View{}))
	mustAppend(t, record, federationtest.File(federationtest.Step(3, offer.Event, federation.Accept, bob), offer.View))
	owing := federationtest.File(federationtest.Offer(4, ada, bob), federation.View{})
	mustAppend(t, record, owing)
	cancel := federationtest.File(federationtest.Step(5, owing.Event, federation.Cancel, ada), owing.View)
	receipt := federationtest.Confirm(6, cancel.Event)
	cancel.Receipt, cancel.Links = &receipt, []string{"libera", "oftc"}
	mustAppend(t, record, cancel)
	ended(t, record, 20)
	if n := pruned(t, record, 20, 10); n != 0 {
		t.Errorf("%d handoffs are pruned, want none: one is too young, one not over, one owed", n)
	}
	if n := pruned(t, record, later, 10); n != 0 {
		t.Errorf("%d handoffs are pruned, want none: the last one moved last of all", n)
	}
	newestEvent(t, record)
	if n := pruned(t, record, later, 10); n != 1 {
		t.Errorf("%d handoffs are pruned, want the last one", n)
	}
	for _, link := range cancel.Links {
		for _, d := range outboxOf(t, record, link, federation.Delivery{}, 10) {
			if n := pruned(t, record, later, 10); n != 0 {
				t.Errorf("%d handoffs are pruned while %s is owed %s", n, link, d.Entry.Event.Verb)
			}
			if err := record.Rows().Settle(t.Context(), link, []int64{d.Row}, federation.Settlement{Shown: true, At: federationtest.At(9)}); err != nil {
				t.Fatalf("Settle: %v", err)
			}
		}
	}
	if n := pruned(t, record, later, 10); n != 1 {
		t.Errorf("%d handoffs are pruned, want the one that is owed no more", n)
	}
	if d := diff([]int{later - 1, 1, 2}, listed(t, record, federation.Filter{}, 10)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

func (s suite) testPruneBatches(t *testing.T) {
	record := s.open(t)
	const handoffs = 7
	for n := range handoffs {
		ended(t, record, n*10+1)
	}
	completed := federationtest.File(federationtest.Offer(200, ada, ""), federation.View{})
	mustAppend(t, record, completed)
	claimed := federationtest.File(federationtest.Step(201, completed.Event, federation.Claim, bob), completed.View)
	mustAppend(t, record, claimed)
	mustAppend(t, record, federationtest.File(federationtest.Step(202, completed.Event, federation.Complete, bob), claimed.View))
	newestEvent(t, record)
	if n, next, err := record.Prune(t.Context(), federationtest.At(later), federationtest.At(later), "", 0); n != 0 || err != nil || next != "" {
		t.Errorf("Prune of none = %d, %q, %v", n, next, err)
	}
	n, next, err := record.Prune(t.Context(), federationtest.At(later), federationtest.At(later), "", 3)
	if n < 1 || n > 3 || next == "" || err != nil {
		t.Errorf("Prune = %d, %q, %v, want up to 3 and more", n, next, err)
	}
	if rest := pruned(t, record, later, 2); n+rest != handoffs+1 {
		t.Errorf("%d and then %d more are pruned, want %d in all", n, rest, handoffs+1)
	}
}

func (s suite) testPruneNumbers(t *testing.T) {
	record := s.open(t)
	ended(t, record, 1)
	ended(t, record, 10)
	old := replay(t, record, bob, "", 10)
	if err := record.Advance(t.Context(), bob, "desk", old[1].Cursor, federationtest.At(20)); err != nil {
		t.Fatalf("Advance: %v", err)
	}
	newestEvent(t, record)
	if n := pruned(t, record, later, 10); n != 2 {
		t.Fatalf("%d handoffs are pruned, want 2", n)
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(30, ada, bob), federation.View{}))
	for _, after := range []federation.Cursor{"", old[0].Cursor, devices(t, record)[0].Cursor} {
		if entries := replay(t, record, bob, after, 10); len(entries) != 1 || entries[0].Number != 3 {
			t.Errorf("after %q are %+v, want the third entry alone", after, entries)
		}
	}
	leased(t, record, "desk", later, 10, 3)
}

func (s suite) testSpent(t *testing.T) {
	record := s.open(t)
	offer, decline := ended(t, record, 1)
	newestEvent(t, record)
	pruned(t, record, later, 10)

	minted, changed, theirs := offer, offer, federationtest.File(federationtest.Offer(1, cleo, bob), federation.View{})
	minted.Event.ID, minted.Event.Handoff, minted.View.ID = federationtest.ID(7), federationtest.ID(7), federationtest.ID(7)
	changed.Event.Signature.Document += "changed"
	for name, tt := range map[string]struct {
		f    federation.Filing
		want federation.RefusalCode
	}{
		"the same offer":              {offer, federation.TerminalHandoff},
		"the same with an id minted":  {minted, federation.TerminalHandoff},
		"the same answer":             {decline, federation.TerminalHandoff},
		"other bytes under its id":    {changed, federation.EventIDInUse},
		"somebody else under its id":  {theirs, federation.EventIDInUse},
		"nothing that was ever filed": {federationtest.File(federationtest.Offer(8, ada, bob), federation.View{}), ""},
	} {
		ev := tt.f.Event
		if name != "somebody else under its id" {
			_, err := record.Known(t.Context(), ev.From, ev.ID, ev.Digest())
			if refusal(err) != tt.want || tt.want == "" && !errors.Is(err, federation.ErrNotFound) {
				t.Errorf("Known of %s: %v, want %q", name, err, tt.want)
			}
		}
		if _, err := record.Append(t.Context(), tt.f); refusal(err) != tt.want || tt.want == "" && err != nil {
			t.Errorf("Append of %s: %v, want %q", name, err, tt.want)
		}
	}
	reply := federationtest.Step(1, federationtest.Offer(9, cleo, ""), federation.Claim, cleo)
	open := federationtest.File(federationtest.Offer(9, cleo, ""), federation.View{})
	mustAppend(t, record, open)
	if _, err := record.Append(t.Context(), federationtest.File(reply, open.View)); err != nil {
		t.Errorf("another signer's step under a spent id: %v", err)
	}

	for _, tt := range []struct{ before, limit, want int }{{later - 1, 10, 0}, {later, 1, 1}, {later, 10, 1}, {later, 10, 0}} {
		if n, err := record.PruneIDs(t.Context(), federationtest.At(tt.before), tt.limit); err != nil || n != tt.want {
			t.Errorf("PruneIDs(%d, %d) = %d, %v, want %d", tt.before, tt.limit, n, err, tt.want)
		}
	}
	if _, err := record.Append(t.Context(), offer); err != nil {
		t.Errorf("Append of what was forgotten: %v", err)
	}
}

func inboxIDs(t *testing.T, record *registry.Record, handle string) (ids []string) {
	t.Helper()
	messages, _, err := record.Inbox(t.Context(), handle, "", 100)
	if err != nil {
		t.Fatalf("Inbox: %v", err)
	}
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// prunedMessages prunes messages received up to a moment, a page of a size at a time, and returns
// their number.
func prunedMessages(t *testing.T, record *registry.Record, before, page int) (gone int) {
	t.Helper()
	var after federation.Cursor
	for range 100 {
		n, next, err := record.PruneMessages(t.Context(), federationtest.At(before), after, page)
		if err != nil || n > page {
			t.Fatalf("PruneMessages = %d, %v", n, err)
		}
		if gone, after = gone+n, next; next == "" {
			return gone
		}
	}
	t.Fatal("PruneMessages does not end")
	return 0
}

func (s suite) testPruneMessages(t *testing.T) {
	for _, page := range []int{1, 3, 100} {
		record := s.open(t)
		if err := record.AddAgent(t.Context(), federationtest.NewAgent("judge")); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 4; n++ {
			post(t, record, agents.Posting{Message: federationtest.Message(n, "scout", "judge")})
		}
		post(t, record, agents.Posting{Message: federationtest.Message(5, "clerk", "judge")})
		post(t, record, agents.Posting{Message: federationtest.Message(6, "scout", "judge")})
		if _, err := record.Post(t.Context(), agents.Posting{Message: federationtest.Message(7, "stranger", "judge"), Held: true}); err != nil {
			t.Fatal(err)
		}
		if n := prunedMessages(t, record, later, page); n != 0 {
			t.Errorf("%d messages are pruned that nobody was handed", n)
		}
		all, _, err := record.Inbox(t.Context(), "judge", "", 100)
		if err == nil {
			err = errors.Join(record.Show(t.Context(), "judge", all[1].Cursor), record.MarkRead(t.Context(), "judge", "message-3", federationtest.At(9)),
				record.Delete(t.Context(), "judge", "message-4"), record.MarkRead(t.Context(), "judge", "message-5", federationtest.At(9)),
				record.MarkRead(t.Context(), "judge", "message-6", federationtest.At(9)))
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := prunedMessages(t, record, 1, page); n != 1 {
			t.Errorf("%d messages are pruned, want the one that is old enough", n)
		}
		if n := prunedMessages(t, record, later, page); n != 3 {
			t.Errorf("%d messages are pruned, want those that were handed out, read or deleted", n)
		}
		// The newest of a thread, and the newest of the inbox.
		if d := diff([]string{"message-5", "message-6"}, inboxIDs(t, record, "judge")); d != "" {
			t.Errorf("left (-want +got):\n%s", d)
		}
		post(t, record, agents.Posting{Message: federationtest.Message(8, "scout", "judge")})
		rest, _, err := record.Inbox(t.Context(), "judge", all[5].Cursor, 100)
		if err != nil || len(rest) != 1 || rest[0].Seq != 6 {
			t.Errorf("after the last come %+v, %v, want the new one as the sixth of its thread", rest, err)
		}
	}
}

func (s suite) testPruneStepMessages(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	step := federationtest.Message(1, "scout", "judge") // neither is registered
	step.Event, step.Handoff = federationtest.ID(1), federationtest.ID(1)
	post(t, record, agents.Posting{Message: step})
	post(t, record, agents.Posting{Message: federationtest.Message(3, "scout", "judge")})
	if n := prunedMessages(t, record, later, 10); n != 0 {
		t.Errorf("%d messages are pruned of a handoff that goes on", n)
	}
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Decline, bob), offer.View))
	again := federationtest.Message(4, "judge", "scout") // the newest in its inbox
	again.Event, again.Handoff = federationtest.ID(2), federationtest.ID(1)
	post(t, record, agents.Posting{Message: again})
	newestEvent(t, record)
	if n := pruned(t, record, later, 10); n != 1 {
		t.Errorf("%d handoffs are pruned, want 1", n)
	}
	if d := diff([]string{"message-3"}, inboxIDs(t, record, "judge")); d != "" {
		t.Errorf("left for the judge (-want +got):\n%s", d)
	}
	if d := diff([]string{"message-4"}, inboxIDs(t, record, "scout")); d != "" {
		t.Errorf("left for the scout (-want +got):\n%s", d)
	}
	post(t, record, agents.Posting{Message: federationtest.Message(5, "judge", "scout")})
	if n := prunedMessages(t, record, later, 10); n != 1 {
		t.Errorf("%d messages are pruned, want the one that is not the newest any more", n)
	}
}
