package store_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/deliveries"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runOrder(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("of the handoffs that are due the lowest rank is first, then the oldest", s.testRanks)
	t.Run("senders have their turns in a circle, whatever else they are owed", s.testTurn)
	t.Run("a handoff that failed waits by itself, and its rows in order", s.testFailed)
	t.Run("a row that waits for a party holds no other row back", s.testPersonal)
	t.Run("the steps of a DID that returned are tried before their time", s.testStuck)
	t.Run("so are those of a DID with many handoffs", s.testStuckOfTheBusy)
	t.Run("the signer hears once that a step is delayed, and then that it arrived", s.testDelay)
	t.Run("what is given up is told to its signer and kept", s.testGivenUp)
	t.Run("what waited too long is given up, of whatever link", s.testExpire)
	t.Run("a step reaches an agent when it is handed out, and its signer hears of that once", s.testHandOut)
	t.Run("an acknowledged message has reached its agent", s.testAcknowledged)
	t.Run("what an agent does not fetch is given up", s.testNotFetched)
	t.Run("what is for another registry is not fetched here", s.testReadElsewhere)
}

// offersTo files an offer to "oftc" for each of these handoffs, and returns their views.
func offersTo(t *testing.T, record *registry.Record, offers ...int) map[int]federation.View {
	t.Helper()
	views := map[int]federation.View{}
	for _, n := range offers {
		f := federationtest.File(federationtest.Offer(n, ada, bob), federation.View{})
		f.Links = []string{"oftc"}
		mustAppend(t, record, f)
		views[n] = f.View
	}
	return views
}

// step files one more step of a handoff, by its offeree, to "oftc".
func step(t *testing.T, record *registry.Record, n int, verb federation.Verb, view federation.View) federation.View {
	t.Helper()
	f := federationtest.File(federationtest.Step(n, federation.Event{ID: view.ID, Handoff: view.ID, Kind: view.Kind, Venue: view.Venue, Dialect: view.Dialect}, verb, bob), view)
	f.Links = []string{"oftc"}
	mustAppend(t, record, f)
	return f.View
}

func lanesOf(offers ...int) (lanes []string) {
	for _, n := range offers {
		lanes = append(lanes, federationtest.ID(n).String())
	}
	return lanes
}

func heads(t *testing.T, record *registry.Record, at, limit int) []string {
	t.Helper()
	due, err := record.Rows().Heads(t.Context(), "oftc", federationtest.At(at), limit)
	if err != nil {
		t.Fatalf("Heads: %v", err)
	}
	return due
}

func settleFirst(t *testing.T, record *registry.Record, id federation.HandoffID, how federation.Settlement) {
	t.Helper()
	rows, err := record.Rows().PendingOf(t.Context(), "oftc", id.String(), 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("Lane = %+v, %v", rows, err)
	}
	for range 2 { // the second time changes nothing
		if err := record.Rows().Settle(t.Context(), "oftc", []int64{rows[0].Row}, how); err != nil {
			t.Fatalf("Settle: %v", err)
		}
	}
}

func failFirst(t *testing.T, record *registry.Record, id federation.HandoffID, f federation.Failure) {
	t.Helper()
	rows, err := record.Rows().PendingOf(t.Context(), "oftc", id.String(), 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("Lane = %+v, %v", rows, err)
	}
	if err := record.Rows().Failed(t.Context(), "oftc", rows[0].Row, f); err != nil {
		t.Fatalf("Failed: %v", err)
	}
}

func (s suite) testRanks(t *testing.T) {
	record := s.open(t)
	views := offersTo(t, record, 1, 2, 3, 4, 5)
	for n, verbs := range map[int][]federation.Verb{1: {federation.Accept, federation.Progress}, 3: {federation.Accept}, 4: {federation.Decline}} {
		for i, verb := range verbs {
			settleFirst(t, record, federationtest.ID(n), federation.Settlement{At: federationtest.At(9)})
			views[n] = step(t, record, 10*n+i, verb, views[n])
		}
	}
	want := lanesOf(4, 3, 2, 5, 1)
	if d := diff(want, heads(t, record, 100, 10)); d != "" {
		t.Errorf("due (-want +got):\n%s", d)
	}
	if d := diff(want[:2], heads(t, record, 100, 2)); d != "" {
		t.Errorf("the first two (-want +got):\n%s", d)
	}
	if got := heads(t, record, 100, 0); len(got) != 0 {
		t.Errorf("of none %v", got)
	}
}

func (s suite) testTurn(t *testing.T) {
	record := s.open(t)
	offer := func(n int, from federation.DID) {
		f := federationtest.File(federationtest.Offer(n, from, bob), federation.View{})
		f.Links = []string{"oftc"}
		mustAppend(t, record, f)
	}
	senders := []federation.DID{"did:plc:a", "did:plc:b", "did:plc:c"}
	for n := range 40 {
		offer(1+n, senders[0])
	}
	offer(101, senders[1])
	offer(102, senders[2])
	offer(103, senders[2])
	failFirst(t, record, federationtest.ID(101), federation.Failure{Reason: "busy", At: federationtest.At(10), Next: federationtest.At(20)})
	failFirst(t, record, federationtest.ID(102), federation.Failure{Reason: "busy", At: federationtest.At(10), Next: federationtest.At(20)})
	a := lanesOf(1, 2, 3)
	for _, c := range []struct {
		after federation.DID
		at    int
		want  deliveries.Turn
	}{
		{"", 19, deliveries.Turn{Sender: senders[0], Lanes: a}},
		{senders[0], 19, deliveries.Turn{Sender: senders[2], Lanes: lanesOf(103)}}, // the other one waits
		{senders[0], 20, deliveries.Turn{Sender: senders[1], Lanes: lanesOf(101)}},
		{senders[1], 20, deliveries.Turn{Sender: senders[2], Lanes: lanesOf(102, 103)}},
		{senders[2], 20, deliveries.Turn{Sender: senders[0], Lanes: a}},
		{"did:plc:unknown", 20, deliveries.Turn{Sender: senders[0], Lanes: a}},
	} {
		got, err := record.Rows().Turn(t.Context(), "oftc", c.after, federationtest.At(c.at), 3)
		if d := diff(c.want, got); err != nil || d != "" {
			t.Errorf("after %s at %d: %v (-want +got):\n%s", c.after, c.at, err, d)
		}
	}
	if got, err := record.Rows().Turn(t.Context(), "hackint", "", federationtest.At(20), 3); err != nil || got.Sender != "" {
		t.Errorf("at a link without deliveries: %v, %v", got, err)
	}
	// Many workers ask at the same time.
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := record.Rows().Turn(t.Context(), "oftc", "", federationtest.At(20), 3); err != nil || got.Sender != senders[0] {
				t.Errorf("beside others: %v, %v", got, err)
			}
		})
	}
	all.Wait()
}

func (s suite) testFailed(t *testing.T) {
	record := s.open(t)
	views := offersTo(t, record, 1, 2)
	step(t, record, 3, federation.Accept, views[1])
	failFirst(t, record, federationtest.ID(1), federation.Failure{Reason: "busy", At: federationtest.At(10), Next: federationtest.At(20)})
	failFirst(t, record, federationtest.ID(1), federation.Failure{Reason: "busier", At: federationtest.At(20), Next: federationtest.At(40), Counted: true})
	if d := diff(lanesOf(2), heads(t, record, 39, 10)); d != "" {
		t.Errorf("due before its time (-want +got):\n%s", d)
	}
	if d := diff(lanesOf(1, 2), heads(t, record, 40, 10)); d != "" {
		t.Errorf("due at its time (-want +got):\n%s", d)
	}
	rows, err := record.Rows().PendingOf(t.Context(), "oftc", federationtest.ID(1).String(), 10)
	if err != nil || len(rows) != 2 || rows[0].Attempt != 1 || rows[0].Reason != "busier" || !rows[0].Next.Equal(federationtest.At(40)) || rows[1].Entry.Event.ID != federationtest.ID(3) {
		t.Errorf("the handoff has %+v, %v", rows, err)
	}
	if one, err := record.Rows().PendingOf(t.Context(), "oftc", federationtest.ID(1).String(), 1); err != nil || len(one) != 1 {
		t.Errorf("one row of the handoff is %+v, %v", one, err)
	}
	settleFirst(t, record, federationtest.ID(1), federation.Settlement{At: federationtest.At(41)})
	if d := diff(lanesOf(1, 2), heads(t, record, 1, 10)); d != "" {
		t.Errorf("due once it was delivered (-want +got):\n%s", d)
	}
}

func (s suite) testPersonal(t *testing.T) {
	record := s.open(t)
	views := offersTo(t, record, 1)
	views[1] = step(t, record, 3, federation.Accept, views[1])
	lane := func(want ...federation.EventID) []federation.Delivery {
		t.Helper()
		rows, err := record.Rows().PendingOf(t.Context(), "oftc", federationtest.ID(1).String(), 10)
		var got []federation.EventID
		for _, row := range rows {
			got = append(got, row.Entry.Event.ID)
		}
		if d := diff(want, got); d != "" || err != nil {
			t.Errorf("%v, the rows are (-want +got):\n%s", err, d)
		}
		return rows
	}
	failFirst(t, record, federationtest.ID(1), federation.Failure{Reason: "away", At: federationtest.At(10), Next: federationtest.At(90), Counted: true, Personal: true})
	if d := diff(lanesOf(1), heads(t, record, 11, 10)); d != "" {
		t.Errorf("due behind the row that waits (-want +got):\n%s", d)
	}
	rows := lane(federationtest.ID(3), federationtest.ID(1))
	if rows[0].Personal || !rows[1].Personal || !rows[1].Next.Equal(federationtest.At(90)) || rows[1].Reason != "away" {
		t.Errorf("the rows are %+v", rows)
	}
	settleFirst(t, record, federationtest.ID(1), federation.Settlement{At: federationtest.At(12)})
	if due := heads(t, record, 89, 10); len(due) != 0 {
		t.Errorf("due before its time are %v", due)
	}
	step(t, record, 4, federation.Progress, views[1])
	if d := diff(lanesOf(1), heads(t, record, 91, 10)); d != "" {
		t.Errorf("due with a new row (-want +got):\n%s", d)
	}
	lane(federationtest.ID(4), federationtest.ID(1))
	if err := record.Rows().Hurry(t.Context(), "oftc"); err != nil {
		t.Fatal(err)
	}
	if rows = lane(federationtest.ID(1), federationtest.ID(4)); !rows[0].Personal || !rows[0].Next.IsZero() {
		t.Errorf("hurried is %+v", rows[0])
	}
	settleFirst(t, record, federationtest.ID(1), federation.Settlement{At: federationtest.At(92)})
	settleFirst(t, record, federationtest.ID(1), federation.Settlement{At: federationtest.At(93)})
	lane()
}

func (s suite) testStuck(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1, 2)
	private := federationtest.File(federationtest.Offer(3, ada, cleo), federation.View{})
	private.Links = []string{"oftc"}
	mustAppend(t, record, private)
	if _, err := record.Rows().Stuck(t.Context(), "oftc", bob, federationtest.At(5)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Stuck with nothing that waits: %v, want ErrNotFound", err)
	}
	for n := 1; n <= 3; n++ {
		failFirst(t, record, federationtest.ID(n), federation.Failure{Reason: "away", At: federationtest.At(5), Next: federationtest.At(50)})
	}
	for did, want := range map[federation.DID]int{cleo: 3, bob: 1, "did:plc:nobody": 1, "": 1} {
		if got, err := record.Rows().Stuck(t.Context(), "oftc", did, federationtest.At(6)); err != nil || got != federationtest.ID(want).String() {
			t.Errorf("Stuck for %q = %s, %v, want that of %d", did, got, err, want)
		}
	}
	if due := heads(t, record, 6, 10); len(due) != 0 {
		t.Errorf("due are %v", due)
	}
	if err := record.Rows().Hurry(t.Context(), "oftc"); err != nil {
		t.Fatalf("Hurry: %v", err)
	}
	if due := heads(t, record, 6, 10); len(due) != 3 {
		t.Errorf("due after Hurry are %v, want all", due)
	}
	if rows, err := record.Rows().PendingOf(t.Context(), "oftc", federationtest.ID(1).String(), 1); err != nil || rows[0].Attempt != 1 {
		t.Errorf("after Hurry: %+v, %v, want its attempt counted still", rows, err)
	}
}

// testStuckOfTheBusy has a delivery wait in the newest of the handoffs of a DID, behind deliveries
// of another one.
func (s suite) testStuckOfTheBusy(t *testing.T) {
	const others, newest = 400, 402
	record := s.open(t)
	for n := 1; n <= others; n++ {
		mustAppend(t, record, federationtest.File(federationtest.Offer(n, ada, bob), federation.View{}))
	}
	for n, to := range map[int]federation.DID{others + 1: bob, newest: ada} {
		waits := federationtest.File(federationtest.Offer(n, cleo, to), federation.View{})
		waits.Links = []string{"oftc"}
		mustAppend(t, record, waits)
		failFirst(t, record, federationtest.ID(n), federation.Failure{Reason: "away", At: federationtest.At(500), Next: federationtest.At(900)})
	}
	if got, err := record.Rows().Stuck(t.Context(), "oftc", ada, federationtest.At(600)); err != nil || got != federationtest.ID(newest).String() {
		t.Errorf("Stuck = %s, %v, want %s", got, err, federationtest.ID(newest))
	}
}

// kinds returns the kinds of the notices that a signer is to be told.
func kinds(t *testing.T, record *registry.Record) []federation.NoticeKind {
	t.Helper()
	var all []federation.NoticeKind
	for _, n := range untold(t, record, "oftc", 10) {
		all = append(all, n.Kind)
	}
	return all
}

func (s suite) testDelay(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1, 2)
	failFirst(t, record, federationtest.ID(1), federation.Failure{Reason: "away", At: federationtest.At(5), Next: federationtest.At(6)})
	for _, want := range []int{1, 0} {
		if n, err := record.Delay(t.Context(), federationtest.At(1), federationtest.At(300), 10); err != nil || n != want {
			t.Errorf("Delay = %d, %v, want %d", n, err, want)
		}
	}
	found := untold(t, record, "oftc", 10)
	if len(found) != 1 || found[0].Kind != federation.NoticeDelayed || found[0].Event.ID != federationtest.ID(1) || found[0].Why != "away" || found[0].To != "oftc" {
		t.Errorf("notices %+v, want that the first is delayed", found)
	}
	settleFirst(t, record, federationtest.ID(1), federation.Settlement{At: federationtest.At(400)})
	settleFirst(t, record, federationtest.ID(2), federation.Settlement{At: federationtest.At(400)})
	if d := diff([]federation.NoticeKind{federation.NoticeDelayed, federation.NoticeDelivered}, kinds(t, record)); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
}

func (s suite) testGivenUp(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1, 2, 3)
	failFirst(t, record, federationtest.ID(2), federation.Failure{Reason: "garbage", At: federationtest.At(5), Next: federationtest.At(6)})
	settleFirst(t, record, federationtest.ID(1), federation.Settlement{State: federation.DeliveryRefused, Code: "invalid-target", Why: "no such channel", At: federationtest.At(9)})
	settleFirst(t, record, federationtest.ID(2), federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: "garbage", At: federationtest.At(9)})
	settleFirst(t, record, federationtest.ID(3), federation.Settlement{State: federation.DeliveryDead, Quiet: true, At: federationtest.At(9)})
	for n, want := range map[int]federation.Delivered{
		1: {Event: federationtest.ID(1), Link: "oftc", State: federation.DeliveryRefused, Reason: "invalid-target", Ended: federationtest.At(9)},
		2: {Event: federationtest.ID(2), Link: "oftc", State: federation.DeliveryDead, Reason: "failed", Ended: federationtest.At(9)},
		3: {Event: federationtest.ID(3), Link: "oftc", State: federation.DeliveryDead, Ended: federationtest.At(9)},
	} {
		got, err := record.Deliveries(t.Context(), federationtest.ID(n), []string{"oftc"})
		if d := diff([]federation.Delivered{want}, got); err != nil || d != "" {
			t.Errorf("deliveries of %d: %v (-want +got):\n%s", n, err, d)
		}
	}
	found := untold(t, record, "oftc", 10)
	if len(found) != 2 || found[0].Code != "invalid-target" || found[1].Code != "failed" || found[1].Kind != federation.NoticeUndeliverable {
		t.Errorf("notices %+v, want one of the first and one of the second", found)
	}
	letters, err := record.DeadLetters(t.Context(), federation.DeadFilter{}, 0, 10)
	if err != nil || len(letters) != 1 || letters[0].Event != federationtest.ID(2) {
		t.Errorf("dead letters %+v, %v, want the second", letters, err)
	}
}

func (s suite) testExpire(t *testing.T) {
	record := s.open(t)
	offersTo(t, record, 1, 2, 3)
	for _, want := range []int{2, 0} {
		if n, err := record.Expire(t.Context(), federationtest.At(2), federationtest.At(100), 10); err != nil || n != want {
			t.Errorf("Expire = %d, %v, want %d", n, err, want)
		}
	}
	if d := diff(lanesOf(3), heads(t, record, 100, 10)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	counts, err := record.CountDead(t.Context())
	if err != nil || counts[federation.DeadExpired] != 2 || len(counts) != len(federation.DeadReasons()) {
		t.Errorf("CountDead = %v, %v", counts, err)
	}
	var rows int
	shapes, err := record.Shapes(t.Context(), federationtest.At(100))
	for _, s := range shapes {
		rows += s.Rows
	}
	if n, other := record.CountWaiting(t.Context()); n != rows || n == 0 || err != nil || other != nil {
		t.Errorf("CountWaiting = %d, %v, want the %d of Shapes, %v", n, other, rows, err)
	}
}
