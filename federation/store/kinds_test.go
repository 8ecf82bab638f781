package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// destinationKind fills one destination with three deliveries: two of one sender in a lane, and one
// of another sender in a lane of its own.
type destinationKind struct {
	to, hold string // its names for deliveries, and for an operator
	letters  bool   // given up deliveries become dead letters
	fill     func(t *testing.T, record *registry.Record)
}

func destinationKinds() map[string]destinationKind {
	steps := func(t *testing.T, record *registry.Record) {
		t.Helper()
		first := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
		second := federationtest.File(federationtest.Step(2, first.Event, federation.Cancel, ada), first.View)
		for _, f := range []federation.Filing{first, second, federationtest.File(federationtest.Offer(3, cleo, bob), federation.View{})} {
			f.Links = []string{"oftc"}
			mustAppend(t, record, f)
		}
	}
	hook := federation.WebhookName(federationtest.ID(9001))
	return map[string]destinationKind{
		"link": {"oftc", "oftc", true, steps},
		"webhook": {hook, hook, true, func(t *testing.T, record *registry.Record) {
			t.Helper()
			addWebhook(t, record, 1, bob)
			steps(t, record)
		}},
		"peer": {federation.PeerDestination("peer.example"), "peer.example", true, func(t *testing.T, record *registry.Record) {
			t.Helper()
			all := []federation.PeerDelivery{relay(1, "peer.example"), relay(2, "peer.example"), relay(3, "peer.example")}
			all[2].Sender, all[2].OrderKey = "c", "cleo"
			for _, r := range all {
				if err := record.Enqueue(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"notices": {federation.NoticesOf("oftc"), federation.NoticesOf("oftc"), false, func(t *testing.T, record *registry.Record) {
			t.Helper()
			steps(t, record) // a signer without a filed step has no turn of its own
			for n, from := range []federation.DID{ada, ada, cleo} {
				notify(t, record, notice(10+n, federationtest.Offer(10+n, from, bob), federation.NoticeRefused))
			}
		}},
	}
}

// turns returns the rows due at a time, each sender once: its lanes, each with its rows.
func turns(ctx context.Context, t *testing.T, record *registry.Record, to string, now int) (all [][][]int64) {
	t.Helper()
	rows, after := record.Rows(), federation.DID("")
	seen := map[federation.DID]bool{}
	for {
		turn, err := rows.Turn(ctx, to, after, federationtest.At(now), 10)
		if err != nil {
			t.Fatalf("Turn: %v", err)
		}
		if turn.Sender == "" || seen[turn.Sender] {
			return all
		}
		seen[turn.Sender], after = true, turn.Sender
		var lanes [][]int64
		for _, lane := range turn.Lanes {
			var of []int64
			pending, err := rows.PendingOf(ctx, to, lane, 10)
			if err != nil {
				t.Fatalf("PendingOf(%s): %v", lane, err)
			}
			for _, d := range pending {
				if d.Broken != "" || d.Ref() == "" {
					t.Errorf("row %d: %q %q", d.Row, d.Ref(), d.Broken)
				}
				of = append(of, d.Row)
			}
			lanes = append(lanes, of)
		}
		all = append(all, lanes)
	}
}

func (s suite) testKind(k destinationKind) func(t *testing.T) {
	return func(t *testing.T) {
		record, ctx := s.open(t), t.Context()
		rows := record.Rows()
		k.fill(t, record)
		first := turns(ctx, t, record, k.to, 100)
		if len(first) != 2 || len(first[0]) != 1 || len(first[0][0]) != 2 || len(first[1]) != 1 || len(first[1][0]) != 1 || !slices.IsSorted(first[0][0]) {
			t.Fatalf("turns are %v, want one sender with a lane of two rows, and one with one", first)
		}
		a1, a2, b := first[0][0][0], first[0][0][1], first[1][0][0]
		check := func(what string, want [][][]int64) {
			t.Helper()
			if d := diff(want, turns(ctx, t, record, k.to, 100)); d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
			if heads, err := rows.Heads(ctx, k.to, federationtest.At(100), 10); err != nil || len(heads) != len(want) {
				t.Errorf("%s: Heads are %v, %v, want %d lanes", what, heads, err, len(want))
			}
		}
		do := func(what string, errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		do("hold", record.Hold(ctx, federation.PausedQueue{To: k.hold, Since: federationtest.At(4), Reason: "moves"}))
		check("held", nil)
		if held, is, err := rows.Held(ctx, k.to); !is || err != nil || held.Reason != "moves" {
			t.Errorf("Held = %+v, %v, %v", held, is, err)
		}
		do("release", record.Release(ctx, k.hold))
		check("released", first)
		failure := federation.Failure{Reason: "away", At: federationtest.At(5), Next: federationtest.At(500), Counted: true}
		do("fail", rows.Attempt(ctx, k.to, []int64{a1}), rows.Failed(ctx, k.to, a1, failure))
		check("a failed row holds its lane back", [][][]int64{{{b}}})
		if lane, err := rows.Stuck(ctx, k.to, ada, federationtest.At(100)); err != nil || lane == "" {
			t.Errorf("Stuck = %q, %v", lane, err)
		}
		do("hurry", rows.Hurry(ctx, k.to))
		check("hurried", first)
		do("give up", rows.Settle(ctx, k.to, []int64{a1}, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: "no", Quiet: true, At: federationtest.At(6)}))
		check("the next row of the lane is due", [][][]int64{{{a2}}, {{b}}})
		letters, err := record.DeadLetters(ctx, federation.DeadFilter{}, 0, 10)
		if err != nil || (len(letters) == 1) != k.letters {
			t.Fatalf("letters are %+v, %v", letters, err)
		}
		if k.letters {
			letter, err := record.DeadLetter(ctx, letters[0].ID)
			if err != nil || letter.Why != "no" || letter.Reason != federation.DeadFailed || len(letter.Tries) == 0 || letter.Tries[0].Reason != "away" {
				t.Errorf("letter is %+v, %v", letter, err)
			}
			for _, want := range []bool{true, false} {
				if revived, err := record.Revive(ctx, letters[0].ID, federationtest.At(7)); err != nil || revived != want {
					t.Errorf("Revive = %v, %v, want %v", revived, err, want)
				}
			}
			check("put back at its place", first)
			do("deliver", rows.Settle(ctx, k.to, []int64{a1}, federation.Settlement{At: federationtest.At(8)}))
		}
		for range 2 { // the second changes nothing
			do("deliver", rows.Settle(ctx, k.to, []int64{a2, b}, federation.Settlement{At: federationtest.At(9)}))
		}
		check("all are over", nil)
	}
}

// testTake leases visited destinations: no two workers have one at a time.
func (s suite) testTake(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	rows, kinds := record.Rows(), destinationKinds()
	kinds["webhook"].fill(t, record)
	kinds["peer"].fill(t, record)
	for _, pool := range []struct {
		kind federation.DestinationKind
		to   string
	}{{federation.ToWebhook, kinds["webhook"].to}, {federation.ToPeer, kinds["peer"].to}} {
		kind, to := pool.kind, pool.to
		take := func(now int) []federation.Destination {
			t.Helper()
			taken, err := rows.Take(ctx, kind, federationtest.At(now), federationtest.At(now+60), 10)
			if err != nil {
				t.Fatalf("Take: %v", err)
			}
			return taken
		}
		if taken := take(100); len(taken) != 1 || taken[0].Name != to {
			t.Errorf("Take of %s = %+v, want %s", kind, taken, to)
		}
		if taken := take(110); len(taken) != 0 {
			t.Errorf("another worker takes %+v of %s", taken, kind)
		}
		if next, err := rows.NextDue(ctx, kind, federationtest.At(110)); err != nil || !next.Equal(federationtest.At(160)) {
			t.Errorf("NextDue of a taken %s = %v, %v, want the end of the lease", kind, next, err)
		}
		if taken := take(161); len(taken) != 1 {
			t.Errorf("after the lease Take of %s = %+v", kind, taken)
		}
		if err := errors.Join(rows.Pause(ctx, to, 2, federationtest.At(300)), rows.Unlock(ctx, to, federationtest.At(200))); err != nil {
			t.Fatal(err)
		}
		if next, err := rows.NextDue(ctx, kind, federationtest.At(170)); err != nil || !next.Equal(federationtest.At(300)) {
			t.Errorf("NextDue of %s = %v, %v", kind, next, err)
		}
		if taken := take(299); len(taken) != 0 {
			t.Errorf("a paused %s is taken: %+v", kind, taken)
		}
		if taken := take(300); len(taken) != 1 || taken[0].Failures != 2 {
			t.Errorf("after the pause Take of %s = %+v", kind, taken)
		}
	}
}

// testEndedFirst ends the first row of a lane while its registry or webhook waits for the time of
// that row: the row behind it is due at once.
func (s suite) testEndedFirst(t *testing.T) {
	kinds := destinationKinds()
	settle := func(how federation.Settlement) func(t *testing.T, record *registry.Record, to string, row int64) error {
		return func(t *testing.T, record *registry.Record, to string, row int64) error {
			t.Helper()
			return record.Rows().Settle(t.Context(), to, []int64{row}, how)
		}
	}
	giveUp := func(drop bool) func(t *testing.T, record *registry.Record, to string, row int64) error {
		return func(t *testing.T, record *registry.Record, _ string, _ int64) error {
			t.Helper()
			f := federation.WaitingFilter{Peer: "peer.example", ID: "message-1"}
			n, err := record.EndWaiting(t.Context(), f, drop, "", federationtest.At(7))
			if n != 1 {
				t.Errorf("gave up %d, want 1", n)
			}
			return err
		}
	}
	dead := federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadOperator, Why: "no", At: federationtest.At(7)}
	dropped := federation.Settlement{State: federation.DeliveryDead, Why: "no", Quiet: true, At: federationtest.At(7)}
	for name, c := range map[string]struct {
		of   federation.DestinationKind
		ends func(t *testing.T, record *registry.Record, to string, row int64) error
	}{
		"a registry, given up":                 {federation.ToPeer, settle(dead)},
		"a registry, given up by an operator":  {federation.ToPeer, giveUp(false)},
		"a registry, dropped by an operator":   {federation.ToPeer, giveUp(true)},
		"a webhook, given up":                  {federation.ToWebhook, settle(dead)},
		"a webhook, dropped":                   {federation.ToWebhook, settle(dropped)},
		"a webhook, delivered after its lease": {federation.ToWebhook, settle(federation.Settlement{At: federationtest.At(7)})},
	} {
		t.Run(name, func(t *testing.T) {
			record, ctx, k := s.open(t), t.Context(), kinds[string(c.of)]
			rows := record.Rows()
			k.fill(t, record)
			first := turns(ctx, t, record, k.to, 100)
			a1, b := first[0][0][0], first[1][0][0]
			failure := federation.Failure{Reason: "away", At: federationtest.At(5), Next: federationtest.At(500)}
			if err := errors.Join(
				rows.Settle(ctx, k.to, []int64{b}, federation.Settlement{At: federationtest.At(5)}),
				rows.Failed(ctx, k.to, a1, failure), rows.Unlock(ctx, k.to, federationtest.At(6)),
			); err != nil {
				t.Fatal(err)
			}
			take := func(want int) {
				t.Helper()
				taken, err := rows.Take(ctx, c.of, federationtest.At(100), federationtest.At(160), 10)
				if err != nil || len(taken) != want {
					t.Errorf("Take = %+v, %v, want %d", taken, err, want)
				}
			}
			take(0)
			if err := c.ends(t, record, k.to, a1); err != nil {
				t.Fatal(err)
			}
			take(1)
		})
	}
}
