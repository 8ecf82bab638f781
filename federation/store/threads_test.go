package store_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func threadOf(t *testing.T, record *registry.Record, handle, peer string) []string {
	t.Helper()
	var all []string
	var after uint64
	for more := true; more; {
		var page []agents.Message
		var err error
		page, more, err = record.Thread(t.Context(), handle, peer, after, 2)
		if err != nil || more && len(page) != 2 {
			t.Fatalf("Thread(%s, %s, %d) = %d messages, %t, %v", handle, peer, after, len(page), more, err)
		}
		for _, m := range page {
			all, after = append(all, m.ID), m.Seq
		}
	}
	return all
}

func (s suite) testThread(t *testing.T) {
	record := s.open(t)
	var filed []agents.Message
	for n, way := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"a", "b"}, {"a", "a"}, {"b", "a"}} {
		filed = append(filed, post(t, record, agents.Posting{Message: federationtest.Message(n, way[0], way[1])}))
	}
	hold(t, record, 7, "a", "d")
	for _, tt := range []struct {
		handle, peer string
		want         []string
	}{
		{"a", "b", []string{"message-0", "message-1", "message-3", "message-5"}},
		{"b", "a", []string{"message-0", "message-1", "message-3", "message-5"}},
		{"c", "a", []string{"message-2"}},
		{"a", "a", []string{"message-4"}},
		{"a", "d", nil}, // held
		{"b", "c", nil},
	} {
		if d := diff(tt.want, threadOf(t, record, tt.handle, tt.peer)); d != "" {
			t.Errorf("thread of %s and %s (-want +got):\n%s", tt.handle, tt.peer, d)
		}
	}
	last, more, err := record.Thread(t.Context(), "b", "a", 3, 10)
	if err != nil || more || diff([]agents.Message{filed[5]}, last) != "" {
		t.Errorf("Thread after 3 = %+v, %t, %v, want the last message", last, more, err)
	}
	if none, more, err := record.Thread(t.Context(), "a", "b", math.MaxUint64, 10); len(none) != 0 || more || err != nil {
		t.Errorf("Thread after all = %d messages, %t, %v", len(none), more, err)
	}
	if none, more, err := record.Thread(t.Context(), "a", "b", 0, 0); len(none) != 0 || !more || err != nil {
		t.Errorf("Thread of none = %d messages, %t, %v", len(none), more, err)
	}
}

func (s suite) testMessageState(t *testing.T) {
	record := s.open(t)
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	mustAppend(t, record, federationtest.File(federationtest.Step(2, offer.Event, federation.Cancel, ada), offer.View))
	told := federationtest.Message(3, "ada", "bob")
	told.Event, told.Handoff = federationtest.ID(1), federationtest.ID(1)
	post(t, record, agents.Posting{Message: told})
	post(t, record, agents.Posting{Message: federationtest.Message(4, "ada", "bob")})
	inbox, _, err := record.Inbox(t.Context(), "bob", "", 10)
	thread, _, threadErr := record.Thread(t.Context(), "bob", "ada", 0, 10)
	recent, recentErr := record.Recent(t.Context(), "bob", "ada", 10)
	if err := errors.Join(err, threadErr, recentErr); err != nil {
		t.Fatal(err)
	}
	for name, messages := range map[string][]agents.Message{"inbox": inbox, "thread": thread, "conversation": recent} {
		var states []federation.State
		for _, m := range messages {
			states = append(states, m.Now)
		}
		if d := diff([]federation.State{federation.Cancelled, ""}, states); d != "" {
			t.Errorf("the %s (-want +got):\n%s", name, d)
		}
	}
}

func (s suite) testMarkRead(t *testing.T) {
	record := s.open(t)
	post(t, record, agents.Posting{Message: federationtest.Message(1, "a", "b")})
	hold(t, record, 2, "c", "b")
	before := inboxOf(t, record, "b")
	for _, now := range []int{5, 6} {
		if err := record.MarkRead(t.Context(), "b", "message-1", federationtest.At(now)); err != nil {
			t.Errorf("MarkRead: %v", err)
		}
	}
	for name, of := range map[string][2]string{
		"what the handle sent itself": {"a", "message-1"}, "a held message": {"b", "message-2"},
		"nothing": {"b", "message-3"}, "somebody else's": {"d", "message-1"},
	} {
		if err := record.MarkRead(t.Context(), of[0], of[1], federationtest.At(5)); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("MarkRead of %s: %v, want ErrNotFound", name, err)
		}
	}
	if d := diff(before, inboxOf(t, record, "b")); d != "" {
		t.Errorf("inbox (-before +after):\n%s", d)
	}
}

func (s suite) testDelete(t *testing.T) {
	record := s.open(t)
	step := federationtest.Message(2, "a", "b")
	step.Event, step.Handoff = federationtest.ID(2), federationtest.ID(2)
	for _, m := range []agents.Message{federationtest.Message(1, "a", "b"), step, federationtest.Message(3, "a", "b")} {
		post(t, record, agents.Posting{Message: m})
	}
	page, _, err := record.Inbox(t.Context(), "b", "", 2)
	if err != nil || len(page) != 2 {
		t.Fatalf("Inbox = %d messages, %v", len(page), err)
	}
	for handle, id := range map[string]string{"a": "message-2", "c": "message-2", "b": "message-4"} {
		if err := record.Delete(t.Context(), handle, id); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("Delete of %s by %s: %v, want ErrNotFound", id, handle, err)
		}
	}
	if err := record.Delete(t.Context(), "b", "message-2"); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	if err := record.Delete(t.Context(), "b", "message-2"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Delete again: %v, want ErrNotFound", err)
	}
	if err := record.MarkRead(t.Context(), "b", "message-2", federationtest.At(9)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("MarkRead of a deleted message: %v, want ErrNotFound", err)
	}
	if _, err := record.Post(t.Context(), agents.Posting{Message: federationtest.Message(2, "a", "c")}); !errors.Is(err, agents.ErrDuplicate) {
		t.Errorf("Post of the id of a deleted message: %v, want ErrDuplicate", err)
	}
	again := federationtest.Message(5, "a", "b")
	again.Event, again.Handoff = step.Event, step.Handoff
	if m := post(t, record, agents.Posting{Message: again}); m.ID != step.ID {
		t.Errorf("the step of a deleted message is filed again as %s", m.ID)
	}

	left, all := []string{"message-1", "message-3"}, []string{"message-1", "message-2", "message-3"}
	if d := diff([]string{"message-1 #1", "message-3 #3"}, ids(t, record, "b")) + diff(left, threadOf(t, record, "b", "a")); d != "" {
		t.Errorf("what the recipient has (-want +got):\n%s", d)
	}
	if d := diff(all, threadOf(t, record, "a", "b")); d != "" {
		t.Errorf("what the sender has (-want +got):\n%s", d)
	}
	rest, more, err := record.Inbox(t.Context(), "b", page[1].Cursor, 10)
	if err != nil || more || len(rest) != 1 || rest[0].ID != "message-3" {
		t.Errorf("Inbox after the deleted message = %+v, %t, %v", rest, more, err)
	}
	if page, more, err := record.Inbox(t.Context(), "b", "", 2); err != nil || more || len(page) != 2 {
		t.Errorf("Inbox of two = %d messages, %t, %v", len(page), more, err)
	}
}

func (s suite) testShown(t *testing.T) {
	record := s.open(t)
	for n, to := range []string{"b", "c", "b", "d", "e"} {
		m := federationtest.Message(n, "a", to)
		if to != "e" {
			m.Event, m.Handoff = federationtest.ID(n+1), federationtest.ID(1)
		}
		post(t, record, agents.Posting{Message: m, Held: to == "d"})
	}
	got, err := record.Shown(t.Context(), federationtest.ID(1))
	slices.Sort(got)
	if d := diff([]string{"b", "c", "d"}, got); err != nil || d != "" {
		t.Errorf("Shown: %v (-want +got):\n%s", err, d)
	}
	if none, err := record.Shown(t.Context(), federationtest.ID(2)); err != nil || len(none) != 0 {
		t.Errorf("Shown of another handoff = %q, %v, want nobody", none, err)
	}
}

func (s suite) testOfferMessage(t *testing.T) {
	record := s.open(t)
	message := func(n int, from, to string, event federation.EventID) agents.Message {
		m := federationtest.Message(n, from, to)
		m.Event, m.Handoff = event, federationtest.ID(1)
		return m
	}
	offer := post(t, record, agents.Posting{Message: message(1, "a", "b", federationtest.ID(1))})
	post(t, record, agents.Posting{Message: message(2, "b", "a", federationtest.ID(2))})
	held := post(t, record, agents.Posting{Message: message(3, "a", "c", federationtest.ID(1)), Held: true})
	for handle, want := range map[string]agents.Message{"a": held, "b": offer} {
		if got, err := record.OfferMessage(t.Context(), handle, federationtest.ID(1)); err != nil || diff(want, got) != "" {
			t.Errorf("OfferMessage(%s) = %+v, %v, want %+v", handle, got, err, want)
		}
	}
	for name, look := range map[string]struct {
		handle string
		id     federation.HandoffID
	}{"held": {"c", federationtest.ID(1)}, "of an answer": {"a", federationtest.ID(2)}, "of others": {"d", federationtest.ID(1)}} {
		if _, err := record.OfferMessage(t.Context(), look.handle, look.id); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("the message %s: %v, want ErrNotFound", name, err)
		}
	}
}

func (s suite) testUnshown(t *testing.T) {
	record := s.open(t)
	if err := record.AddAgent(t.Context(), federationtest.NewAgent("b")); err != nil {
		t.Fatal(err)
	}
	want := func(when string, messages, ofA int) {
		t.Helper()
		u, err := record.Unshown(t.Context(), "b", "a")
		if err != nil || u.Entries != messages || (u.Bytes > 0) != (messages > 0) {
			t.Errorf("%s: %d messages of %d bytes wait (%v), want %d", when, u.Entries, u.Bytes, err, messages)
		}
		if u.SenderEntries != ofA || (u.SenderBytes > 0) != (ofA > 0) || messages > ofA && u.SenderBytes >= u.Bytes {
			t.Errorf("%s: %+v wait, %d of them of one sender", when, u, ofA)
		}
	}
	want("at first", 0, 0)
	post(t, record, agents.Posting{Message: federationtest.Message(1, "a", "b")})
	hold(t, record, 2, "c", "b")
	step := federationtest.Message(3, "a", "b")
	step.Event, step.Handoff = federationtest.ID(3), federationtest.ID(3)
	post(t, record, agents.Posting{Message: step})
	want("one delivered and one held, beside a step and a handshake", 3, 1)
	page, _, err := record.Inbox(t.Context(), "b", "", 10)
	if err != nil || len(page) == 0 {
		t.Fatalf("Inbox: %v", err)
	}
	for range 2 { // a message may be handed out twice
		if err := record.Show(t.Context(), "b", page[len(page)-1].Cursor); err != nil {
			t.Fatalf("Show: %v", err)
		}
	}
	want("after they were handed out", 1, 0)
	if _, err := record.Accept(t.Context(), "c", "b", federationtest.At(9)); err != nil {
		t.Fatal(err)
	}
	want("after the held one was delivered", 1, 0)
}

func (s suite) testFiledMessages(t *testing.T) {
	record := s.open(t)
	telling := func(n int, f federation.Filing, to ...string) federation.Filing {
		for _, handle := range to {
			m := federationtest.Message(n, "ada", handle)
			m.ID += "-to-" + handle
			m.Event, m.Handoff = f.Event.ID, f.View.ID
			f.Effects = append(f.Effects, agents.Posting{Message: m})
		}
		return f
	}
	offer := telling(1, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}), "bob", "cleo")
	for range 2 { // the same step again tells no agent again
		mustAppend(t, record, offer)
	}
	for _, handle := range []string{"bob", "cleo"} {
		if got := ids(t, record, handle); len(got) != 1 {
			t.Errorf("%s was told %v, want one message", handle, got)
		}
	}
	stale := telling(2, federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), federation.View{}), "ada")
	stale.View.ID, stale.View.Version = offer.View.ID, 1
	if _, err := record.Append(t.Context(), stale); !errors.Is(err, federation.ErrStale) {
		t.Errorf("Append: %v, want ErrStale", err)
	}
	used := telling(3, federationtest.File(federationtest.Step(3, offer.Event, federation.Accept, bob), offer.View), "ada")
	post(t, record, agents.Posting{Message: agents.Message{
		ID: "message-3-to-ada", From: "ada", To: "eve", Envelope: []byte("{}"), Received: federationtest.At(3),
	}})
	if _, err := record.Append(t.Context(), used); !errors.Is(err, agents.ErrDuplicate) {
		t.Errorf("Append: %v, want ErrDuplicate", err)
	}
	if steps := log(t, record, offer.View.ID); len(steps) != 1 || len(ids(t, record, "ada")) != 0 {
		t.Errorf("%d steps and messages %v were filed, want the offer alone", len(steps), ids(t, record, "ada"))
	}
}
