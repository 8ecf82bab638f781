package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runInboxes(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("what reached an inbox waits until it is read", s.testWaiting)
	t.Run("what waits is counted by its sender too", s.testUse)
	t.Run("what waits since a time is told, oldest first", s.testUndelivered)
	t.Run("a DID that nothing reached has an empty inbox", s.testEmptyInbox)
	t.Run("an inbox is replayed in order from any of its cursors", s.testReplay)
	t.Run("an entry says whether it waits", s.testWaits)
	t.Run("reading changes nothing, and no more is read than asked for", s.testReplayLimit)
	t.Run("the newest cursor is good, and reads on with what comes later", s.testNewestCursor)
	t.Run("a cursor that the inbox never gave out is unknown", s.testUnknownCursor)
}

func (s suite) testEmptyInbox(t *testing.T) {
	if entries, err := s.open(t).Replay(t.Context(), ada, "", 10); err != nil || len(entries) != 0 {
		t.Errorf("Replay = %d entries, %v, want none", len(entries), err)
	}
}

func (s suite) testReplay(t *testing.T) {
	record := s.open(t)
	want := fill(t, record, 5, bob, cleo)
	for start := range want {
		var after federation.Cursor
		if start > 0 {
			after = replay(t, record, bob, "", start)[start-1].Cursor
		}
		got := replay(t, record, bob, after, 10)
		for i := range got {
			if number := uint64(start + i + 1); got[i].Number != number {
				t.Errorf("entry %d has number %d", number, got[i].Number)
			}
			if !got[i].Waits {
				t.Errorf("entry %d, which nobody read, does not wait", got[i].Number)
			}
			got[i].Cursor, got[i].Number, got[i].Waits, got[i].Now = "", 0, false, ""
		}
		if d := diff(want[start:], got); d != "" {
			t.Errorf("after %d entries (-want +got):\n%s", start, d)
		}
	}
}

func (s suite) testWaits(t *testing.T) {
	record := s.open(t)
	fill(t, record, 2, bob)
	if err := record.Read(t.Context(), bob, []federation.EventID{federationtest.ID(1)}, federationtest.At(100)); err != nil {
		t.Fatalf("Read: %v", err)
	}
	if got := replay(t, record, bob, "", 10); got[0].Waits || !got[1].Waits {
		t.Errorf("waiting are %t, %t", got[0].Waits, got[1].Waits)
	}
}

func (s suite) testReplayLimit(t *testing.T) {
	record := s.open(t)
	fill(t, record, 5, bob)
	for _, limit := range []int{-1, 0, 1, 3, 3} {
		if got := replay(t, record, bob, "", limit); len(got) != max(limit, 0) {
			t.Errorf("Replay of %d returns %d entries", limit, len(got))
		}
	}
}

func (s suite) testNewestCursor(t *testing.T) {
	record := s.open(t)
	fill(t, record, 1, bob)
	newest := replay(t, record, bob, "", 10)[0].Cursor
	if got := replay(t, record, bob, newest, 10); len(got) != 0 {
		t.Errorf("Replay returns %d entries after the newest", len(got))
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(9, ada, bob), federation.View{}))
	if got := replay(t, record, bob, newest, 10); len(got) != 1 || got[0].Event.ID != federationtest.ID(9) {
		t.Errorf("Replay returns %d entries, want the new one", len(got))
	}
}

func (s suite) testUnknownCursor(t *testing.T) {
	full, record := s.open(t), s.open(t)
	fill(t, full, 5, bob)
	fill(t, record, 1, bob, cleo)
	for name, cursor := range map[string]federation.Cursor{
		"of another inbox": replay(t, record, cleo, "", 1)[0].Cursor,
		"of later entries": replay(t, full, bob, "", 10)[4].Cursor,
		"of nothing":       "AAAAAAAAAAAAAAAAAAAAAA",
		"of somebody":      "1",
	} {
		_, err := record.Replay(t.Context(), bob, cursor, 10)
		unknown, ok := errors.AsType[*federation.CursorError](err)
		if !ok || !errors.Is(err, federation.ErrUnknownCursor) {
			t.Fatalf("cursor %s: %v, want a CursorError", name, err)
		}
		if want := replay(t, record, bob, "", 10)[0].Cursor; unknown.Newest != want {
			t.Errorf("cursor %s: go on from %q, want %q", name, unknown.Newest, want)
		}
		if _, err := record.Replay(t.Context(), ada, cursor, 10); !errors.As(err, &unknown) || unknown.Newest != "" {
			t.Errorf("cursor %s in an empty inbox: %v, want a CursorError without a place to go on from", name, err)
		}
	}
}

func (s suite) testWaiting(t *testing.T) {
	record := s.open(t)
	fill(t, record, 4, bob, cleo)
	size := func(offers ...int) (bytes int64) {
		for _, n := range offers {
			bytes += int64(len(federationtest.Offer(n, ada, bob).Signature.Document))
		}
		return bytes
	}
	waits := func(did federation.DID, offers ...int) {
		t.Helper()
		n, bytes, err := record.Waiting(t.Context(), did)
		if err != nil || n != len(offers) || bytes != size(offers...) {
			t.Errorf("for %s wait %d entries of %d bytes, %v, want %d of %d", did, n, bytes, err, len(offers), size(offers...))
		}
	}
	read := func(did federation.DID, events ...federation.EventID) {
		t.Helper()
		if err := record.Read(t.Context(), did, events, federationtest.At(100)); err != nil {
			t.Errorf("Read: %v", err)
		}
	}
	waits(ada)
	waits(bob, 1, 2, 3, 4)
	replay(t, record, bob, "", 10)
	waits(bob, 1, 2, 3, 4)
	read(bob, federationtest.ID(2), federationtest.ID(3), federationtest.ID(77)) // no step has the last id
	for range 2 {
		read(bob, federationtest.ID(2))
		read(bob)
		read(ada, federationtest.ID(1))
		waits(bob, 1, 4)
		waits(cleo, 1, 2, 3, 4)
	}
	if got := replay(t, record, bob, "", 10); len(got) != 4 {
		t.Errorf("Replay returns %d entries after two were read, want all 4", len(got))
	}
	read(bob, federationtest.ID(1), federationtest.ID(4))
	waits(bob)
	mustAppend(t, record, federationtest.File(federationtest.Offer(9, ada, bob), federation.View{}))
	waits(bob, 9)
}

func (s suite) testUse(t *testing.T) {
	record := s.open(t)
	uses := func(when string, to, from federation.DID, all, own []federation.Event) {
		t.Helper()
		want := federation.InboxUse{Entries: len(all), SenderEntries: len(own)}
		for _, ev := range all {
			want.Bytes += int64(len(ev.Signature.Document))
		}
		for _, ev := range own {
			want.SenderBytes += int64(len(ev.Signature.Document))
		}
		got, err := record.Use(t.Context(), to, from)
		if err != nil || got != want {
			t.Errorf("%s: of %s wait %+v for %s, %v; want %+v", when, from, got, to, err, want)
		}
	}
	type events = []federation.Event
	first, second, third := federationtest.Offer(1, ada, bob), federationtest.Offer(2, cleo, bob), federationtest.Offer(3, ada, bob)
	cancel := federationtest.Step(4, third, federation.Cancel, ada)
	uses("at first", bob, ada, nil, nil)
	for _, ev := range (events{first, second, third}) {
		mustAppend(t, record, federationtest.File(ev, federation.View{}))
	}
	mustAppend(t, record, federationtest.File(cancel, federationtest.File(third, federation.View{}).View))
	uses("of one sender", bob, ada, events{first, second, third, cancel}, events{first, third, cancel})
	uses("of the other one", bob, cleo, events{first, second, third, cancel}, events{second})
	uses("of a DID that sent nothing", bob, bob, events{first, second, third, cancel}, nil)
	uses("in the inbox of another DID", cleo, ada, nil, nil)
	if err := record.Read(t.Context(), bob, []federation.EventID{first.ID, second.ID}, federationtest.At(100)); err != nil {
		t.Fatalf("Read: %v", err)
	}
	uses("after some were read", bob, ada, events{third, cancel}, events{third, cancel})
	uses("after all of one sender was read", bob, cleo, events{third, cancel}, nil)
	if err := record.ExpireUnread(t.Context(), bob, []federation.EventID{third.ID, cancel.ID}, federationtest.At(100)); err != nil {
		t.Fatalf("ExpireUnread: %v", err)
	}
	uses("after the rest waits no more", bob, ada, nil, nil)
	later := federationtest.Offer(5, cleo, bob)
	mustAppend(t, record, federationtest.File(later, federation.View{}))
	uses("after one more came", bob, cleo, events{later}, events{later})
}

func (s suite) testUndelivered(t *testing.T) {
	record := s.open(t)
	fill(t, record, 4, bob, cleo)
	accept := federationtest.File(federationtest.Step(5, federationtest.Offer(2, ada, bob), federation.Accept, bob), federationtest.File(federationtest.Offer(2, ada, bob), federation.View{}).View)
	mustAppend(t, record, accept)
	if err := record.Read(t.Context(), bob, []federation.EventID{federationtest.ID(1)}, federationtest.At(100)); err != nil {
		t.Fatalf("Read: %v", err)
	}
	type waiting struct {
		To     federation.DID
		Number uint64
		State  federation.State
	}
	const offered, assigned = federation.Offered, federation.Assigned
	for _, tt := range []struct {
		before, limit int
		want          []waiting
	}{
		{0, 10, nil},
		{1, 10, []waiting{{cleo, 1, offered}}},
		{3, 10, []waiting{{cleo, 1, offered}, {bob, 2, assigned}, {cleo, 2, assigned}, {bob, 3, offered}, {cleo, 3, offered}}},
		{3, 2, []waiting{{cleo, 1, offered}, {bob, 2, assigned}}},
		{3, 0, nil},
	} {
		found, err := record.Undelivered(t.Context(), federationtest.At(tt.before), tt.limit)
		var got []waiting
		for _, u := range found {
			got = append(got, waiting{u.To, u.Entry.Number, u.View.State})
			if id := replay(t, record, u.To, "", 10)[u.Entry.Number-1].Event.ID; u.Entry.Event.ID != id || u.View.ID != id {
				t.Errorf("entry %d is %s of %s, want %s", u.Entry.Number, u.Entry.Event.ID, u.View.ID, id)
			}
		}
		if d := diff(tt.want, got); err != nil || d != "" {
			t.Errorf("waiting since %d: %v (-want +got):\n%s", tt.before, err, d)
		}
	}
}

func fill(t *testing.T, record *registry.Record, offers int, inboxes ...federation.DID) []federation.Entry {
	t.Helper()
	var entries []federation.Entry
	for n := range offers {
		f := federationtest.File(federationtest.Offer(n+1, ada, bob), federation.View{})
		f.Inboxes = inboxes
		entries = append(entries, mustAppend(t, record, f))
	}
	return entries
}

func replay(t *testing.T, record *registry.Record, to federation.DID, after federation.Cursor, limit int) []federation.Entry {
	t.Helper()
	entries, err := record.Replay(t.Context(), to, after, limit)
	if err != nil {
		t.Fatalf("Replay(%s, %q, %d): %v", to, after, limit, err)
	}
	return entries
}
