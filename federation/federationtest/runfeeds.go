package federationtest

import (
	"errors"
	"slices"
	"testing"

	"baton/federation"
)

// RunInboxes holds a record to what [federation.Inboxes] promises.
func RunInboxes(t *testing.T, open func(t *testing.T) federation.Record) {
	t.Helper()
	s := suite{open}
	t.Run("what reached an inbox waits until it is read", s.testWaiting)
	t.Run("what waits since a time is told, oldest first", s.testUndelivered)
	t.Run("a DID that nothing reached has an empty inbox", func(t *testing.T) {
		if entries, err := open(t).Replay(t.Context(), ada, "", 10); err != nil || len(entries) != 0 {
			t.Errorf("Replay = %d entries, %v, want none", len(entries), err)
		}
	})
	t.Run("an inbox is replayed in order from any of its cursors", func(t *testing.T) {
		record := open(t)
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
				got[i].Cursor, got[i].Number, got[i].Waits = "", 0, false
			}
			if d := diff(want[start:], got); d != "" {
				t.Errorf("after %d entries (-want +got):\n%s", start, d)
			}
		}
	})
	t.Run("an entry says whether it waits", func(t *testing.T) {
		record := open(t)
		fill(t, record, 2, bob)
		if err := record.Read(t.Context(), bob, []federation.EventID{ID(1)}); err != nil {
			t.Fatalf("Read: %v", err)
		}
		if got := replay(t, record, bob, "", 10); got[0].Waits || !got[1].Waits {
			t.Errorf("waiting are %t, %t", got[0].Waits, got[1].Waits)
		}
	})
	t.Run("reading changes nothing, and no more is read than asked for", func(t *testing.T) {
		record := open(t)
		fill(t, record, 5, bob)
		for _, limit := range []int{-1, 0, 1, 3, 3} {
			if got := replay(t, record, bob, "", limit); len(got) != max(limit, 0) {
				t.Errorf("Replay of %d returns %d entries", limit, len(got))
			}
		}
	})
	t.Run("the newest cursor is good, and reads on with what comes later", func(t *testing.T) {
		record := open(t)
		fill(t, record, 1, bob)
		newest := replay(t, record, bob, "", 10)[0].Cursor
		if got := replay(t, record, bob, newest, 10); len(got) != 0 {
			t.Errorf("Replay returns %d entries after the newest", len(got))
		}
		mustAppend(t, record, File(Offer(9, ada, bob), federation.View{}))
		if got := replay(t, record, bob, newest, 10); len(got) != 1 || got[0].Event.ID != ID(9) {
			t.Errorf("Replay returns %d entries, want the new one", len(got))
		}
	})
	t.Run("a cursor that the inbox never gave out is unknown", func(t *testing.T) {
		full, record := open(t), open(t)
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
	})
}

func (s suite) testWaiting(t *testing.T) {
	record := s.open(t)
	fill(t, record, 4, bob, cleo)
	size := func(offers ...int) (bytes int64) {
		for _, n := range offers {
			bytes += int64(len(Offer(n, ada, bob).Signature.Document))
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
		if err := record.Read(t.Context(), did, events); err != nil {
			t.Errorf("Read: %v", err)
		}
	}
	waits(ada)
	waits(bob, 1, 2, 3, 4)
	replay(t, record, bob, "", 10)
	waits(bob, 1, 2, 3, 4)
	read(bob, ID(2), ID(3), ID(77)) // the last one is nobody's
	for range 2 {
		read(bob, ID(2))
		read(bob)
		read(ada, ID(1))
		waits(bob, 1, 4)
		waits(cleo, 1, 2, 3, 4)
	}
	if got := replay(t, record, bob, "", 10); len(got) != 4 {
		t.Errorf("Replay returns %d entries after two were read, want all 4", len(got))
	}
	read(bob, ID(1), ID(4))
	waits(bob)
	mustAppend(t, record, File(Offer(9, ada, bob), federation.View{}))
	waits(bob, 9)
}

func (s suite) testUndelivered(t *testing.T) {
	record := s.open(t)
	fill(t, record, 4, bob, cleo)
	accept := File(Step(5, Offer(2, ada, bob), federation.Accept, bob), File(Offer(2, ada, bob), federation.View{}).View)
	mustAppend(t, record, accept)
	if err := record.Read(t.Context(), bob, []federation.EventID{ID(1)}); err != nil {
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
		found, err := record.Undelivered(t.Context(), At(tt.before), tt.limit)
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

// fill files offers that reach the inboxes, and returns their entries.
func fill(t *testing.T, record federation.Store, offers int, inboxes ...federation.DID) []federation.Entry {
	t.Helper()
	var entries []federation.Entry
	for n := range offers {
		f := File(Offer(n+1, ada, bob), federation.View{})
		f.Inboxes = inboxes
		entries = append(entries, mustAppend(t, record, f))
	}
	return entries
}

func replay(t *testing.T, record federation.Inboxes, to federation.DID, after federation.Cursor, limit int) []federation.Entry {
	t.Helper()
	entries, err := record.Replay(t.Context(), to, after, limit)
	if err != nil {
		t.Fatalf("Replay(%s, %q, %d): %v", to, after, limit, err)
	}
	return entries
}

// RunFeeds holds a record to what [federation.Feeds] promises.
func RunFeeds(t *testing.T, open func(t *testing.T) federation.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a link is owed its steps in order, with the view as it stands now", s.testOwed)
	t.Run("rows are counted for each link and handoff", func(t *testing.T) {
		record := open(t)
		rows := owe(t, record, 2)
		if err := record.Settle(t.Context(), "airc", rows, federation.Settlement{}); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			link    string
			handoff int
			want    int
		}{{"oftc", 1, 1}, {"oftc", 2, 1}, {"airc", 1, 0}, {"oftc", 9, 0}, {"nobody", 1, 0}} {
			if n, err := record.OwedIn(t.Context(), tt.link, ID(tt.handoff)); err != nil || n != tt.want {
				t.Errorf("OwedIn(%s, %d) = %d, %v, want %d", tt.link, tt.handoff, n, err, tt.want)
			}
		}
	})
	t.Run("attempts are counted, for the link that made them", func(t *testing.T) {
		record := open(t)
		rows := owe(t, record, 3)
		for _, err := range []error{
			record.Attempt(t.Context(), "oftc", rows[:2]),
			record.Attempt(t.Context(), "oftc", rows[:1]),
			record.Attempt(t.Context(), "airc", rows),
			record.Attempt(t.Context(), "oftc", nil),
		} {
			if err != nil {
				t.Errorf("Attempt: %v", err)
			}
		}
		var got []int
		for _, d := range owed(t, record, "oftc", 0, 10) {
			got = append(got, d.Attempt)
		}
		if d := diff([]int{2, 1, 0}, got); d != "" {
			t.Errorf("attempts (-want +got):\n%s", d)
		}
	})
	t.Run("a settled row is owed no more, and its number does not come back", func(t *testing.T) {
		record := open(t)
		rows := owe(t, record, 3)
		for link, settled := range map[string][]int64{"oftc": rows[1:], "airc": rows[:1]} {
			if err := record.Settle(t.Context(), link, settled, federation.Settlement{At: At(9)}); err != nil {
				t.Errorf("Settle: %v", err)
			}
		}
		if err := record.Settle(t.Context(), "oftc", rows[1:], federation.Settlement{At: At(9)}); err != nil {
			t.Errorf("Settle again: %v", err)
		}
		later := File(Offer(9, ada, bob), federation.View{})
		later.Feeds = []string{"oftc"}
		mustAppend(t, record, later)
		left := owed(t, record, "oftc", 0, 10)
		if len(left) != 2 || left[0].Row != rows[0] || left[1].Row <= rows[2] {
			t.Errorf("owed are rows %+v, want %d and one after %d", left, rows[0], rows[2])
		}
	})
	t.Run("what a link was given can be read again, from a time on", func(t *testing.T) {
		record := open(t)
		rows := owe(t, record, 4)
		for i, row := range []int64{rows[2], rows[0], rows[1]} {
			settled := federation.Settlement{At: At(20 + i)}
			if i == 1 {
				settled.State = federation.DeliveryRefused
			}
			if err := record.Settle(t.Context(), "oftc", []int64{row}, settled); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			link         string
			since, limit int
			want         []int64
		}{
			{"oftc", 0, 10, []int64{rows[2], rows[1]}},
			{"oftc", 22, 10, []int64{rows[1]}},
			{"oftc", 0, 1, []int64{rows[2]}},
			{"oftc", 23, 10, nil},
			{"oftc", 0, 0, nil},
			{"airc", 0, 10, nil},
		} {
			done, err := record.Given(t.Context(), tt.link, At(tt.since), tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, d := range done {
				got = append(got, d.Row)
				if d.Entry.Event.ID.IsZero() || d.View.ID != d.Entry.Event.Handoff || d.At.Before(At(tt.since)) {
					t.Errorf("row %d is %+v", d.Row, d)
				}
			}
			if d := diff(tt.want, got); d != "" {
				t.Errorf("given to %s since %d, at most %d (-want +got):\n%s", tt.link, tt.since, tt.limit, d)
			}
		}
	})
	t.Run("what a link has shown waits no more for whoever is bound to it", s.testShownToPeople)
}

func (s suite) testShownToPeople(t *testing.T) {
	record := s.open(t)
	offer := File(Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	accept := File(Step(2, offer.Event, federation.Accept, bob), offer.View)
	accept.Feeds = []string{"oftc", "airc"}
	mustAppend(t, record, accept)
	row := owed(t, record, "oftc", 0, 10)[0].Row
	for _, step := range []struct {
		link  string
		shown bool
		left  int // waiting for ada, who is bound to oftc by her offer
	}{{"airc", true, 1}, {"oftc", true, 0}} {
		if err := record.Settle(t.Context(), step.link, []int64{row}, federation.Settlement{Shown: step.shown, At: At(9)}); err != nil {
			t.Fatalf("Settle: %v", err)
		}
		if n, _, err := record.Waiting(t.Context(), ada); err != nil || n != step.left {
			t.Errorf("settled for %s: %d steps wait (%v), want %d", step.link, n, err, step.left)
		}
	}
}

func (s suite) testOwed(t *testing.T) {
	record := s.open(t)
	offer := File(Offer(1, ada, bob), federation.View{})
	offer.Feeds = []string{"oftc", "airc"}
	mustAppend(t, record, offer)
	accept := File(Vouch(Step(2, offer.Event, federation.Accept, bob), "original"), offer.View)
	accept.Feeds = []string{"oftc"}
	mustAppend(t, record, accept)

	got := owed(t, record, "oftc", 0, 10)
	if len(got) != 2 || got[0].Row >= got[1].Row {
		t.Fatalf("owed are %+v, want two rows that ascend", got)
	}
	for i, f := range []federation.Filing{offer, accept} {
		want := federation.Delivery{
			Row:   got[i].Row,
			Entry: federation.Entry{Event: bare(f.Event), Version: f.View.Version, State: f.View.State, Filed: f.Filed},
			View:  accept.View,
		}
		if d := diff(want, got[i]); d != "" {
			t.Errorf("row %d (-want +got):\n%s", i, d)
		}
	}
	if rest := owed(t, record, "oftc", got[0].Row, 10); len(rest) != 1 || rest[0].Row != got[1].Row {
		t.Errorf("after the first row are %+v", rest)
	}
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1} {
		if some := owed(t, record, "oftc", 0, limit); len(some) != want {
			t.Errorf("Owed of %d returns %d rows", limit, len(some))
		}
	}
	if other := owed(t, record, "airc", 0, 10); len(other) != 1 {
		t.Errorf("the other link is owed %d rows, want 1", len(other))
	}
	if none := owed(t, record, "libera", 0, 10); len(none) != 0 {
		t.Errorf("a third link is owed %d rows, want none", len(none))
	}
}

// owe files offers that the link "oftc" is owed, and returns the rows.
func owe(t *testing.T, record federation.Record, offers int) []int64 {
	t.Helper()
	for n := range offers {
		f := File(Offer(n+1, ada, bob), federation.View{})
		f.Feeds = []string{"oftc"}
		mustAppend(t, record, f)
	}
	var rows []int64
	for _, d := range owed(t, record, "oftc", 0, offers) {
		rows = append(rows, d.Row)
	}
	if len(rows) != offers || !slices.IsSorted(rows) {
		t.Fatalf("rows are %v, want %d that ascend", rows, offers)
	}
	return rows
}

func owed(t *testing.T, record federation.Feeds, link string, after int64, limit int) []federation.Delivery {
	t.Helper()
	deliveries, err := record.Owed(t.Context(), link, after, limit)
	if err != nil {
		t.Fatalf("Owed(%s, %d, %d): %v", link, after, limit, err)
	}
	return deliveries
}
