package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runDeadLetters(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a dead letter has what was signed, and each attempt", s.testDeadLetter)
	t.Run("a dead letter is put back once, at its place in its handoff", s.testRevive)
	t.Run("letters are listed by reason and destination, page by page", s.testDeadList)
	t.Run("one of a message to another registry is sent again", s.testReviveRelay)
	t.Run("what is dropped is told and forgotten, and so is what is old", s.testDiscard)
}

func runWaits(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("what waits is listed by destination, handoff and age, page by page", s.testWaitingFor)
	t.Run("what waits is counted by destination and age", s.testShapes)
	t.Run("deliveries are tried, given up and dropped by their ids", s.testSteer)
	t.Run("a hold is there until it is released", s.testHolds)
}

func runAudit(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	t.Run("changes are read newest first, by time and actor", func(t *testing.T) {
		record := open(t)
		var want []federation.Change
		for n := 1; n <= 3; n++ {
			c := federation.Change{At: federationtest.At(n), Actor: "uid:0", What: "feed hold", Subject: "oftc", Reason: "why"}
			if n == 2 {
				c.Actor = "uid:7"
			}
			if err := record.Note(t.Context(), c); err != nil {
				t.Fatalf("Note: %v", err)
			}
			c.ID = int64(n)
			want = append([]federation.Change{c}, want...)
		}
		for name, tt := range map[string]struct {
			filter federation.ChangeFilter
			before int64
			limit  int
			want   []federation.Change
		}{
			"all":      {federation.ChangeFilter{}, 0, 10, want},
			"a page":   {federation.ChangeFilter{}, 0, 1, want[:1]},
			"the next": {federation.ChangeFilter{}, 3, 10, want[1:]},
			"since":    {federation.ChangeFilter{Since: federationtest.At(2)}, 0, 10, want[:2]},
			"of one":   {federation.ChangeFilter{Actor: "uid:7"}, 0, 10, want[1:2]},
		} {
			got, err := record.Changes(t.Context(), tt.filter, tt.before, tt.limit)
			if d := diff(tt.want, got); err != nil || d != "" {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
			}
		}
	})
	t.Run("the last word on a registry holds", func(t *testing.T) {
		record := open(t)
		words := []federation.PeerMode{
			{Domain: "b.example", Mode: "block", Since: federationtest.At(1)}, {Domain: "a.example", Mode: "hold", Since: federationtest.At(2)}, {Domain: "b.example", Mode: "allow", Since: federationtest.At(3)},
		}
		for _, m := range words {
			if err := record.SetPeerMode(t.Context(), m); err != nil {
				t.Fatalf("SetPeerMode: %v", err)
			}
		}
		got, err := record.PeerModes(t.Context())
		if d := diff(words[1:], got); err != nil || d != "" {
			t.Errorf("PeerModes: %v (-want +got):\n%s", err, d)
		}
	})
}

func kill(t *testing.T, record *registry.Record, n int, reason federation.DeadReason) {
	t.Helper()
	settleFirst(t, record, federationtest.ID(n), federation.Settlement{State: federation.DeliveryDead, Dead: reason, Why: "no use", At: federationtest.At(n + 50)})
}

func letterIDs(t *testing.T, record *registry.Record, f federation.DeadFilter, before int64, limit int) []int64 {
	t.Helper()
	letters, err := record.DeadLetters(t.Context(), f, before, limit)
	if err != nil {
		t.Fatalf("DeadLetters: %v", err)
	}
	ids := []int64{}
	for _, d := range letters {
		ids = append(ids, d.ID)
	}
	return ids
}

func (s suite) testDeadLetter(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1)
	var tries []federation.Attempt
	for n := 1; n <= federation.MaxAttempts+2; n++ {
		failFirst(t, record, federationtest.ID(1), federation.Failure{Reason: "garbage", At: federationtest.At(n), Next: federationtest.At(n)})
		tries = append(tries, federation.Attempt{Number: n, At: federationtest.At(n), Reason: "garbage"})
	}
	kill(t, record, 1, federation.DeadFailed)
	id := letterIDs(t, record, federation.DeadFilter{}, 0, 10)[0]
	ev := federationtest.Offer(1, ada, bob)
	want := federation.DeadLetter{
		ID: id, To: "oftc", Reason: federation.DeadFailed, Why: "no use", Event: federationtest.ID(1), Handoff: federationtest.ID(1), Verb: federation.Offer,
		Attempt: federation.MaxAttempts + 2, Queued: federationtest.At(1), Died: federationtest.At(51), Raw: []byte(ev.Signature.Document), Signature: ev.Signature.Text, Tries: tries[2:],
	}
	got, err := record.DeadLetter(t.Context(), id)
	if d := diff(want, got); err != nil || d != "" {
		t.Errorf("DeadLetter: %v (-want +got):\n%s", err, d)
	}
	if _, err := record.DeadLetter(t.Context(), 999); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("DeadLetter of nothing: %v, want ErrNotFound", err)
	}
}

func (s suite) testRevive(t *testing.T) {
	record := s.open(t)
	views := offersTo(t, record, 1)
	step(t, record, 2, federation.Accept, views[1])
	kill(t, record, 1, federation.DeadFailed)
	id := letterIDs(t, record, federation.DeadFilter{}, 0, 10)[0]
	for _, want := range []bool{true, false} {
		if got, err := record.Revive(t.Context(), id, federationtest.At(70)); err != nil || got != want {
			t.Errorf("Revive = %v, %v, want %v", got, err, want)
		}
	}
	if ids := letterIDs(t, record, federation.DeadFilter{}, 0, 10); len(ids) != 0 {
		t.Errorf("letters %v after it was put back", ids)
	}
	rows, err := record.Rows().PendingOf(t.Context(), "oftc", federationtest.ID(1).String(), 10)
	if err != nil || len(rows) != 2 || rows[0].Entry.Event.ID != federationtest.ID(1) || rows[0].Attempt != 0 {
		t.Fatalf("the handoff has %+v, %v, want the offer first", rows, err)
	}
	if due := heads(t, record, 71, 10); len(due) != 1 {
		t.Errorf("due %v, want the handoff", due)
	}
	settleFirst(t, record, federationtest.ID(1), federation.Settlement{At: federationtest.At(80)})
	if again, err := record.Revive(t.Context(), id, federationtest.At(90)); err != nil || again {
		t.Errorf("Revive after it arrived = %v, %v", again, err)
	}
	got, err := record.Deliveries(t.Context(), federationtest.ID(1), []string{"oftc"})
	if err != nil || len(got) != 2 || got[0].State != federation.DeliveryDelivered || got[1].State != federation.DeliveryWaiting {
		t.Errorf("deliveries %+v, %v", got, err)
	}
	if _, err := record.Revive(t.Context(), 999, federationtest.At(90)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Revive of nothing: %v, want ErrNotFound", err)
	}
}

func (s suite) testDeadList(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1, 2, 3)
	kill(t, record, 1, federation.DeadFailed)
	kill(t, record, 2, federation.DeadExpired)
	kill(t, record, 3, federation.DeadFailed)
	all := letterIDs(t, record, federation.DeadFilter{}, 0, 10)
	if len(all) != 3 || all[0] < all[1] || all[1] < all[2] {
		t.Fatalf("letters %v, want three, the newest first", all)
	}
	for name, tt := range map[string]struct{ got, want []int64 }{
		"a page":      {letterIDs(t, record, federation.DeadFilter{}, 0, 2), all[:2]},
		"the next":    {letterIDs(t, record, federation.DeadFilter{}, all[1], 2), all[2:]},
		"by reason":   {letterIDs(t, record, federation.DeadFilter{Reason: federation.DeadExpired}, 0, 10), all[1:2]},
		"to somebody": {letterIDs(t, record, federation.DeadFilter{To: "oftc"}, 0, 10), all},
		"to nobody":   {letterIDs(t, record, federation.DeadFilter{To: "libera"}, 0, 10), nil},
	} {
		if d := diff(tt.want, tt.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func (s suite) testReviveRelay(t *testing.T) {
	record := s.open(t)
	if err := record.Enqueue(t.Context(), relay(1, "peer.example")); err != nil {
		t.Fatal(err)
	}
	pending := documents(t, record, "peer.example", "amy")
	if len(pending) != 1 {
		t.Fatal(pending)
	}
	row := pending[0].Row
	failure := federation.Failure{Reason: "away", Counted: true, At: federationtest.At(2), Next: federationtest.At(3)}
	if err := errors.Join(record.Attempted(t.Context(), row, "try-1", federationtest.At(2)), record.Rows().Failed(t.Context(), federation.PeerDestination("peer.example"), row, failure)); err != nil {
		t.Fatal(err)
	}
	settleDocuments(t, record, "peer.example", refusedAt(4, "400 bad_request"), row)
	id := letterIDs(t, record, federation.DeadFilter{}, 0, 1)[0]
	got, err := record.DeadLetter(t.Context(), id)
	want := federation.DeadLetter{
		ID: id, To: "peer.example", ToPeer: true, Reason: federation.DeadRefused, Why: "400 bad_request", Message: "message-1", Attempt: 1,
		Queued: federationtest.At(1), Died: federationtest.At(4), Raw: []byte(`{"n":1}`), Tries: []federation.Attempt{{Number: 1, At: federationtest.At(2), Reason: "away"}},
	}
	if d := diff(want, got); err != nil || d != "" {
		t.Errorf("DeadLetter: %v (-want +got):\n%s", err, d)
	}
	for _, want := range []bool{true, false} {
		if revived, err := record.Revive(t.Context(), id, federationtest.At(9)); err != nil || revived != want {
			t.Errorf("Revive = %v, %v, want %v", revived, err, want)
		}
	}
	if d := diff([]string{`message-1 {"n":1} 0 "400 bad_request" "" at 9`}, owedTo(t, record)); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
}

func (s suite) testDiscard(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1, 2)
	kill(t, record, 1, federation.DeadFailed)
	kill(t, record, 2, federation.DeadFailed)
	all := letterIDs(t, record, federation.DeadFilter{}, 0, 10)
	if err := record.Discard(t.Context(), all[1], federationtest.At(60)); err != nil {
		t.Fatalf("Discard: %v", err)
	}
	if err := record.Discard(t.Context(), all[1], federationtest.At(60)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Discard again: %v, want ErrNotFound", err)
	}
	if d := diff([]federation.NoticeKind{federation.NoticeUndeliverable, federation.NoticeUndeliverable}, kinds(t, record)); d != "" {
		t.Errorf("notices, one of each (-want +got):\n%s", d)
	}
	for want, at := range []int{51, 52} { // none, then one
		if n, err := record.PruneDead(t.Context(), federationtest.At(at), 10); err != nil || n != want {
			t.Errorf("PruneDead at %d = %d, %v, want %d", at, n, err, want)
		}
	}
	if ids := letterIDs(t, record, federation.DeadFilter{}, 0, 10); len(ids) != 0 {
		t.Errorf("left are %v", ids)
	}
}

// waitingIDs returns the deliveries admitted by a filter, by the ids of events and messages, read
// page by page.
func waitingIDs(t *testing.T, record *registry.Record, f federation.WaitingFilter, limit int) []string {
	t.Helper()
	ids := []string{}
	for cursor, more := federation.Cursor(""), true; more; more = cursor != "" {
		var page []federation.Waiting
		var err error
		if page, cursor, err = record.WaitingFor(t.Context(), f, cursor, limit); err != nil || len(page) > limit {
			t.Fatalf("WaitingFor = %+v, %v", page, err)
		}
		for _, w := range page {
			id := w.Message
			if !w.Event.IsZero() {
				id = w.Event.Short()
			}
			ids = append(ids, w.To()+" "+id)
		}
	}
	return ids
}

// waits files two offers to a link, an answer behind the first, and a message to a
// registry.
func waits(t *testing.T, record *registry.Record) {
	t.Helper()
	views := offersTo(t, record, 1, 2)
	step(t, record, 3, federation.Accept, views[1])
	if err := record.Enqueue(t.Context(), relay(4, "peer.example")); err != nil {
		t.Fatal(err)
	}
}

func (s suite) testWaitingFor(t *testing.T) {
	record := s.open(t)
	waits(t, record)
	one, two, three, four := "oftc "+federationtest.ID(1).Short(), "oftc "+federationtest.ID(2).Short(), "oftc "+federationtest.ID(3).Short(), "peer.example message-4"
	for name, tt := range map[string]struct {
		filter federation.WaitingFilter
		want   []string
	}{
		"all":          {federation.WaitingFilter{}, []string{one, two, three, four}},
		"of a link":    {federation.WaitingFilter{Link: "oftc"}, []string{one, two, three}},
		"of a peer":    {federation.WaitingFilter{Peer: "peer.example"}, []string{four}},
		"of a handoff": {federation.WaitingFilter{Handoff: federationtest.ID(1)}, []string{one, three}},
		"old":          {federation.WaitingFilter{Before: federationtest.At(2)}, []string{one, two}},
		"by event":     {federation.WaitingFilter{ID: federationtest.ID(2).String()}, []string{two}},
		"by message":   {federation.WaitingFilter{ID: "message-4"}, []string{four}},
		"of nobody":    {federation.WaitingFilter{Link: "libera"}, nil},
	} {
		for _, limit := range []int{1, 2, 10} {
			if d := diff(tt.want, waitingIDs(t, record, tt.filter, limit)); d != "" {
				t.Errorf("%s by %d (-want +got):\n%s", name, limit, d)
			}
		}
	}
	page, _, err := record.WaitingFor(t.Context(), federation.WaitingFilter{ID: federationtest.ID(3).String()}, "", 10)
	want := federation.Waiting{Link: "oftc", Event: federationtest.ID(3), Handoff: federationtest.ID(1), Verb: federation.Accept, Queued: federationtest.At(3), Behind: true}
	if d := diff([]federation.Waiting{want}, page); err != nil || d != "" {
		t.Errorf("the third: %v (-want +got):\n%s", err, d)
	}
	if _, _, err := record.WaitingFor(t.Context(), federation.WaitingFilter{}, "nonsense", 10); !errors.Is(err, federation.ErrUnknownCursor) {
		t.Errorf("a cursor that was never given out: %v, want ErrUnknownCursor", err)
	}
}

func (s suite) testShapes(t *testing.T) {
	record := s.open(t)
	waits(t, record)
	want := []federation.Shape{
		{Link: "oftc", Rows: 3, Ages: [5]int{1, 2}, Oldest: federationtest.At(1)},
		{Peer: "peer.example", Rows: 1, Ages: [5]int{1}, Oldest: federationtest.At(4)},
	}
	got, err := record.Shapes(t.Context(), federationtest.At(62))
	if d := diff(want, got); err != nil || d != "" {
		t.Errorf("Shapes: %v (-want +got):\n%s", err, d)
	}
}

func (s suite) testSteer(t *testing.T) {
	record := s.open(t)
	waits(t, record)
	failFirst(t, record, federationtest.ID(1), federation.Failure{Reason: "away", At: federationtest.At(5), Next: federationtest.At(500)})
	if n, err := record.Retry(t.Context(), federation.WaitingFilter{ID: federationtest.ID(1).String()}, federationtest.At(9)); err != nil || n != 1 {
		t.Errorf("Retry = %d, %v", n, err)
	}
	if due := heads(t, record, 9, 10); len(due) != 2 {
		t.Errorf("due %v, want both handoffs", due)
	}
	if n, err := record.EndWaiting(t.Context(), federation.WaitingFilter{ID: federationtest.ID(1).String(), Link: "oftc"}, false, "", federationtest.At(10)); err != nil || n != 1 {
		t.Errorf("GiveUp = %d, %v", n, err)
	}
	if n, err := record.EndWaiting(t.Context(), federation.WaitingFilter{ID: federationtest.ID(2).String()}, true, "", federationtest.At(10)); err != nil || n != 1 {
		t.Errorf("GiveUp to drop = %d, %v", n, err)
	}
	if n, err := record.EndWaiting(t.Context(), federation.WaitingFilter{Peer: "peer.example"}, false, "they closed", federationtest.At(10)); err != nil || n != 1 {
		t.Errorf("GiveUp of a message = %d, %v", n, err)
	}
	if d := diff([]string{"notices/oftc " + federationtest.ID(1).Short(), "oftc " + federationtest.ID(3).Short()}, waitingIDs(t, record, federation.WaitingFilter{}, 10)); d != "" {
		t.Errorf("waiting (-want +got):\n%s", d)
	}
	letters, err := record.DeadLetters(t.Context(), federation.DeadFilter{Reason: federation.DeadOperator}, 0, 10)
	if err != nil || len(letters) != 2 || letters[0].Why != "they closed" || letters[1].Event != federationtest.ID(1) {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if found := untold(t, record, "oftc", 10); len(found) != 1 || found[0].Event.ID != federationtest.ID(1) {
		t.Errorf("notices %+v, want that of the first alone", found)
	}
}

func (s suite) testHolds(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1)
	first := federation.PausedQueue{To: "oftc", Since: federationtest.At(1), Reason: "netsplit"}
	again := federation.PausedQueue{To: "oftc", Since: federationtest.At(2), Reason: "still"}
	other := federation.PausedQueue{To: "airc", Since: federationtest.At(3)}
	for _, h := range []federation.PausedQueue{first, again, other} {
		if err := record.Hold(t.Context(), h); err != nil {
			t.Fatalf("Hold: %v", err)
		}
	}
	first.Reason = again.Reason
	got, err := record.Holds(t.Context())
	if d := diff([]federation.PausedQueue{other, first}, got); err != nil || d != "" {
		t.Errorf("Holds: %v (-want +got):\n%s", err, d)
	}
	if h, held, err := record.Rows().Held(t.Context(), "oftc"); err != nil || !held || diff(first, h) != "" {
		t.Errorf("Held = %+v, %v, %v", h, held, err)
	}
	if due := heads(t, record, 100, 10); len(due) != 0 {
		t.Errorf("%v is due on a link that is held", due)
	}
	if err := record.Release(t.Context(), "oftc"); err != nil {
		t.Fatalf("Release: %v", err)
	}
	if due := heads(t, record, 100, 10); len(due) != 1 {
		t.Errorf("due after the release: %v, want one handoff", due)
	}
	if err := record.Release(t.Context(), "oftc"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Release again: %v, want ErrNotFound", err)
	}
	if _, held, err := record.Rows().Held(t.Context(), "oftc"); err != nil || held {
		t.Errorf("Held after it was released: %v, %v", held, err)
	}
}
