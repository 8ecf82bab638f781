package home_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func in(d federation.Dialect) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Dialect = d }
}

func due(at time.Time) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Deadline = at }
}

func TestSweepExpiresAnUnansweredOfferOnce(t *testing.T) {
	for name, test := range map[string]struct {
		change []func(*federation.Event)
		early  time.Time // when it has not yet
		late   time.Time // when it has
	}{
		"an offer, two minutes after its deadline": {
			[]func(*federation.Event){due(federationtest.At(100))}, federationtest.At(219), federationtest.At(220),
		},
		"an open offer, likewise": {
			[]func(*federation.Event){due(federationtest.At(100)), func(ev *federation.Event) { ev.To = "" }}, federationtest.At(219), federationtest.At(220),
		},
		"an offer without deadline, after a week": {
			nil, federationtest.At(7*24*3600 - 1), federationtest.At(7 * 24 * 3600),
		},
		"an offer in the other dialect": {
			[]func(*federation.Event){in(federation.ActTags), due(federationtest.At(100))}, federationtest.At(219), federationtest.At(220),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.file(b.step(1, b.alice, federation.Offer, test.change...))
			for _, now := range []time.Time{test.early, test.late, test.late.Add(time.Hour)} {
				filed, err := b.home.Sweep(t.Context(), now)
				if want := now.Equal(test.late); err != nil || (len(filed) == 1) != want {
					t.Errorf("at %s: %d expired, %v", now, len(filed), err)
				}
			}
			view, err := b.record.View(t.Context(), federationtest.ID(1))
			if err != nil || view.State != federation.Expired || view.Version != 2 {
				t.Errorf("view %+v, %v", view, err)
			}
			for _, did := range []federation.DID{b.alice.did, view.Offeree} {
				if did == "" {
					continue
				}
				inbox, err := b.record.Replay(t.Context(), did, "", 10)
				if err != nil || len(inbox) == 0 || inbox[len(inbox)-1].Event.Verb != federation.Expire {
					t.Errorf("%s was not told (%v)", did, err)
				}
			}
		})
	}
}

func TestSweepKeepsAnsweredOffers(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer, due(federationtest.At(100))), b.step(2, b.bob, federation.Accept))
	if filed, err := b.home.Sweep(t.Context(), federationtest.At(3600)); err != nil || len(filed) != 0 {
		t.Errorf("%d expired, %v", len(filed), err)
	}
}

func TestSweepExpiresManyOffers(t *testing.T) {
	b := newBench(t)
	const n = 250 // more than two passes
	b.home.Limits.EventsPerMinute = 10
	for i := range n {
		offer := b.step(i+1, newPerson(fmt.Sprintf("p%d", i)), federation.Offer, due(federationtest.At(300)))
		known, _ := b.home.Keys.(keys)
		known[offer.From] = newPerson(fmt.Sprintf("p%d", i)).key.Public
		b.now = federationtest.At(i + 1)
		b.file(offer)
	}
	var total int
	for range 3 {
		filed, err := b.home.Sweep(t.Context(), federationtest.At(1000))
		if err != nil {
			t.Fatal(err)
		}
		total += len(filed)
	}
	if total != n {
		t.Errorf("%d expired, want %d: the home's own steps have no rate", total, n)
	}
}

func TestReceiptIsWrittenInTheActDialect(t *testing.T) {
	for d, want := range map[federation.Dialect][]federation.Verb{
		federation.ActTags:     {federation.Accept, federation.Complete},
		federation.HandoffTags: nil,
	} {
		b := newBench(t)
		steps := []federation.Event{
			b.step(1, b.alice, federation.Offer, in(d)), b.step(2, b.bob, federation.Accept, in(d)),
			b.step(3, b.bob, federation.Progress, in(d)), b.step(4, b.bob, federation.Complete, in(d)),
		}
		b.file(steps...)
		rows, err := b.record.Outbox(t.Context(), "lab", federation.Delivery{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		var confirmed []federation.Verb
		for _, row := range rows {
			if receipt := row.Entry.Event; receipt.Verb == federation.Confirm {
				if receipt.From != "did:web:gw.example" || receipt.Handoff != steps[0].ID || row.Entry.Version != 0 {
					t.Errorf("receipt %+v", receipt)
				}
				for _, step := range steps {
					if step.ID == receipt.Subject {
						confirmed = append(confirmed, step.Verb)
					}
				}
			}
		}
		if diff := cmp.Diff(want, confirmed); diff != "" {
			t.Errorf("%s: confirmed (-want +got):\n%s", d, diff)
		}
	}
}

func TestActDialectOffererCancelsAssignedWork(t *testing.T) {
	b := newBench(t)
	act := in(federation.ActTags)
	b.file(b.step(1, b.alice, federation.Offer, act), b.step(2, b.bob, federation.Accept, act), b.step(3, b.alice, federation.Cancel, act))
}

func TestHandoffKeepsTheRulesOfItsOpener(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept))
	_, err := b.home.Submit(t.Context(), b.step(3, b.alice, federation.Cancel, in(federation.ActTags)), b.now)
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.IllegalStep {
		t.Errorf("a cancel in the other dialect: %v, want illegal-step", err)
	}
}

func TestOfferIsWrittenAtAnotherPlace(t *testing.T) {
	b := newBench(t)
	pair := federation.PrivateVenue(b.alice.did, b.bob.did)
	b.file(b.step(1, b.alice, federation.Offer, func(ev *federation.Event) {
		ev.Venue, ev.Arrival.Place = pair, federation.ChannelRef{Venue: "#ops"}
	}))
	view, err := b.record.View(t.Context(), federationtest.ID(1))
	if err != nil || view.Venue != "#ops" || view.Signed != pair {
		t.Errorf("view %+v, %v", view, err)
	}
	b.file(
		b.step(2, b.bob, federation.Accept), // where it was written
		b.step(3, b.bob, federation.Progress, func(ev *federation.Event) { ev.Venue = pair }),
	)
}

func TestAgentAnswersAsAnyOfItsDIDs(t *testing.T) {
	b := newBench(t)
	own := newPerson("bob:own")
	known, _ := b.home.Keys.(keys)
	known[own.did] = own.key.Public
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, own, federation.Accept), b.step(3, b.bob, federation.Complete))
	view, err := b.record.View(t.Context(), federationtest.ID(1))
	if err != nil || view.Assignee != b.bob.did {
		t.Errorf("assignee %s, %v; want the DID that the offer named", view.Assignee, err)
	}
	if inbox, err := b.record.Replay(t.Context(), own.did, "", 10); err != nil || len(inbox) != 0 {
		t.Errorf("%d steps reached the other DID's inbox (%v)", len(inbox), err)
	}
}

func TestLimitsBoundStepsAndHandoffs(t *testing.T) {
	codeOf := func(err error) federation.RefusalCode {
		refused, _ := errors.AsType[*federation.RefusalError](err)
		if refused == nil {
			return ""
		}
		return refused.Code
	}
	t.Run("of steps a minute, for one DID alone", func(t *testing.T) {
		b := newBench(t)
		b.home.Limits.EventsPerMinute = 2
		b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.alice, federation.Offer))
		_, err := b.home.Submit(t.Context(), b.step(3, b.alice, federation.Offer), b.now)
		if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.RateLimited || refused.RetryAfter != 30*time.Second {
			t.Errorf("the third: %+v, want rate-limited for 30 s", refused)
		}
		b.file(b.step(4, b.bob, federation.Accept, func(ev *federation.Event) { ev.Handoff = federationtest.ID(1) }))
		b.now = b.now.Add(30 * time.Second)
		b.file(b.step(31, b.alice, federation.Offer))
	})
	t.Run("of steps a minute, with those that the gateway signs for the DID", func(t *testing.T) {
		b := newBench(t)
		b.home.Limits.EventsPerMinute = 1
		b.home.Same = func(_ context.Context, signer, of federation.DID) (bool, error) {
			return signer == b.carol.did && of == b.alice.did, nil
		}
		forWhom := func(did federation.DID) func(*federation.Event) {
			return func(ev *federation.Event) { ev.For, ev.Provenance = did, federation.Vouched }
		}
		b.file(b.step(1, b.carol, federation.Offer, forWhom(b.alice.did)))
		_, err := b.home.Submit(t.Context(), b.step(2, b.alice, federation.Offer), b.now)
		if codeOf(err) != federation.RateLimited {
			t.Errorf("one that the DID signs itself: %v, want rate-limited", err)
		}
		b.file(b.step(3, b.carol, federation.Offer))
		_, err = b.home.Submit(t.Context(), b.step(4, b.carol, federation.Offer, forWhom(b.bob.did)), b.now)
		if codeOf(err) != federation.RateLimited {
			t.Errorf("one for somebody whose key the signer has not: %v, want rate-limited", err)
		}
	})
	t.Run("of handoffs that are not over", func(t *testing.T) {
		b := newBench(t)
		b.home.Limits.OpenHandoffs = 1
		b.file(b.step(1, b.alice, federation.Offer))
		if _, err := b.home.Submit(t.Context(), b.step(2, b.alice, federation.Offer), b.now); codeOf(err) != federation.QuotaExceeded {
			t.Errorf("the second: %v, want quota-exceeded", err)
		}
		b.file(b.step(3, b.bob, federation.Decline, func(ev *federation.Event) { ev.Handoff = federationtest.ID(1) }), b.step(4, b.alice, federation.Offer))
	})
	t.Run("of what waits in an inbox", func(t *testing.T) {
		b := newBench(t)
		b.home.Limits.Inbox.Events = 1
		b.file(b.step(1, b.alice, federation.Offer))
		if _, err := b.home.Submit(t.Context(), b.step(2, b.carol, federation.Offer), b.now); codeOf(err) != federation.InboxFull {
			t.Errorf("the second: %v, want inbox-full", err)
		}
		b.file(b.step(3, b.alice, federation.Cancel)) // a step of a filed offer is always filed
		if err := b.record.Read(t.Context(), b.bob.did, []federation.EventID{federationtest.ID(1), federationtest.ID(3)}, b.now); err != nil {
			t.Fatal(err)
		}
		b.file(b.step(4, b.carol, federation.Offer))
	})
	t.Run("of capabilities", func(t *testing.T) {
		b := newBench(t)
		b.home.Limits.ClaimCaps = true
		b.file(b.step(1, b.alice, federation.Offer, func(ev *federation.Event) { ev.To, ev.Caps = "", []string{"go"} }))
		if _, err := b.home.Submit(t.Context(), b.step(2, b.carol, federation.Claim), b.now); codeOf(err) != federation.MissingCapability {
			t.Errorf("a claim without: %v, want missing-capability", err)
		}
		b.file(b.step(3, b.bob, federation.Claim))
	})
}

func TestRatesLeftCountsTokens(t *testing.T) {
	b := newBench(t)
	b.home.Limits.EventsPerMinute = 60
	b.file(b.step(1, b.alice, federation.Offer))
	left, full := b.home.Rates.Left(b.alice.did, 60, b.now)
	if left != 59 || full.Sub(b.now).Round(time.Millisecond) != time.Second {
		t.Errorf("%d left, full in %s", left, full.Sub(b.now))
	}
	if left, _ := home.NewRates().Left(b.alice.did, 60, b.now); left != 60 {
		t.Errorf("%d left of a fresh bucket", left)
	}
}

func (b bench) giveUp(before, now int) (expired []federation.HandoffID) {
	b.t.Helper()
	for more := true; more; {
		var filed []federation.Judgement
		var err error
		if filed, more, err = b.home.ExpireUndelivered(b.t.Context(), federationtest.At(before), federationtest.At(now)); err != nil {
			b.t.Fatalf("GiveUp: %v", err)
		}
		for _, judged := range filed {
			if ev := judged.Entry.Event; ev.Verb != federation.Expire || ev.From != "did:web:gw.example" || judged.View.State != federation.Expired {
				b.t.Errorf("filed %s by %s, which leaves it %s", ev.Verb, ev.From, judged.View.State)
			}
			expired = append(expired, judged.View.ID)
		}
	}
	return expired
}

func (b bench) waits(who person) int {
	b.t.Helper()
	n, _, err := b.record.Waiting(b.t.Context(), who.did)
	if err != nil {
		b.t.Fatalf("Waiting: %v", err)
	}
	return n
}

func TestExpireUndeliveredNotifiesTheOfferer(t *testing.T) {
	for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		b := newBench(t)
		offer := b.step(1, b.alice, federation.Offer, in(d))
		b.file(offer)
		if expired := b.giveUp(-1, 100); len(expired) != 0 {
			t.Errorf("%s expired before its time", expired)
		}
		for _, want := range [][]federation.HandoffID{{offer.ID}, nil} {
			if diff := cmp.Diff(want, b.giveUp(0, 100)); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		}
		inbox, err := b.record.Replay(t.Context(), b.alice.did, "", 10)
		if err != nil || len(inbox) != 1 || inbox[0].Event.Note != "not picked up in time" {
			t.Errorf("alice is told %+v, %v", inbox, err)
		}
	}
}

func TestExpireUndeliveredKeepsOtherSteps(t *testing.T) {
	const delivered, expired = federation.DeliveryDelivered, federation.DeliveryExpired
	for name, tt := range map[string]struct {
		steps  func(b bench) []federation.Event
		became []federation.DeliveryState
	}{
		"an offer that was answered": {func(b bench) []federation.Event {
			return []federation.Event{b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept)}
		}, []federation.DeliveryState{delivered, expired}},
		"an outcome that nobody fetched": {func(b bench) []federation.Event {
			return []federation.Event{
				b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept), b.step(3, b.bob, federation.Complete),
			}
		}, []federation.DeliveryState{delivered, expired, expired}},
		"an offer that was taken back": {func(b bench) []federation.Event {
			return []federation.Event{b.step(1, b.alice, federation.Offer), b.step(2, b.alice, federation.Cancel)}
		}, []federation.DeliveryState{expired, expired}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.home.Route = nil // the inbox is their only way
			b.file(tt.steps(b)...)
			before, err := b.record.View(t.Context(), federationtest.ID(1))
			if err != nil {
				t.Fatal(err)
			}
			if expired := b.giveUp(0, 100); len(expired) != 0 {
				t.Errorf("%s expired", expired)
			}
			after, err := b.record.View(t.Context(), federationtest.ID(1))
			if diff := cmp.Diff(before, after); err != nil || diff != "" {
				t.Errorf("view: %v (-before +after):\n%s", err, diff)
			}
			if a, n := b.waits(b.alice), b.waits(b.bob); a != 0 || n != 0 {
				t.Errorf("%d entries wait for alice and %d for bob", a, n)
			}
			if diff := cmp.Diff(tt.became, b.became()); diff != "" {
				t.Errorf("what became of the steps (-want +got):\n%s", diff)
			}
			if inbox, err := b.record.Replay(t.Context(), b.bob.did, "", 10); err != nil || len(inbox) == 0 {
				t.Errorf("bob's inbox has %d entries, %v, want what was there", len(inbox), err)
			}
		})
	}
}

func (b bench) became() []federation.DeliveryState {
	b.t.Helper()
	found, err := b.record.Deliveries(b.t.Context(), federationtest.ID(1), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	var states []federation.DeliveryState
	for _, d := range found {
		states = append(states, d.State)
	}
	return states
}

func TestExpireUndeliveredSkipsReadSteps(t *testing.T) {
	b := newBench(t)
	offer := b.step(1, b.alice, federation.Offer)
	b.file(offer)
	if err := b.record.Read(t.Context(), b.bob.did, []federation.EventID{offer.ID}, b.now); err != nil {
		t.Fatal(err)
	}
	if expired := b.giveUp(0, 100); len(expired) != 0 {
		t.Errorf("%s expired, which bob has read", expired)
	}
	if diff := cmp.Diff([]federation.DeliveryState{federation.DeliveryDelivered}, b.became()); diff != "" {
		t.Errorf("what became of the offer (-want +got):\n%s", diff)
	}
}

func TestSubmitRefusesStepsOfPrunedHandoffs(t *testing.T) {
	b := newBench(t)
	offer, decline := b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Decline)
	b.file(offer, decline, b.step(3, b.alice, federation.Offer))
	for _, row := range []string{"lab", "airc"} {
		if err := b.record.Rows().Settle(t.Context(), row, []int64{1, 2, 3, 4, 5, 6}, federation.Settlement{Shown: true}); err != nil {
			t.Fatal(err)
		}
	}
	n, _, err := b.record.Prune(t.Context(), b.now, b.now, "", 10)
	if err != nil || n != 1 {
		t.Fatalf("Prune = %d, %v, want 1", n, err)
	}
	for _, step := range []federation.Event{offer, decline} {
		_, err := b.home.Submit(t.Context(), step, b.now)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.TerminalHandoff {
			t.Errorf("%s again: %v, want %s", step.Verb, err, federation.TerminalHandoff)
		}
	}
	if view, err := b.record.View(t.Context(), offer.ID); err != nil || view.Exists() {
		t.Errorf("the pruned handoff is %+v, %v", view, err)
	}
}

func TestExpireUndeliveredEndsManyOffers(t *testing.T) {
	b := newBench(t)
	const n = 250 // more than two passes
	for i := range n {
		b.now = federationtest.At(i + 1)
		b.file(b.step(i+1, b.alice, federation.Offer))
	}
	if expired := b.giveUp(n, n+1); len(expired) != n {
		t.Errorf("%d expired, want %d", len(expired), n)
	}
	if left := b.waits(b.bob); left != n {
		t.Errorf("%d entries wait for bob, want the %d that tell him of it", left, n)
	}
}

// restarted returns the bench after its record was closed and opened again.
func (b bench) restarted() bench {
	b.t.Helper()
	if err := b.record.Close(); err != nil {
		b.t.Fatal(err)
	}
	record := storetest.OpenIn(b.t, b.dir)
	again := *b.home
	again.Record = record
	b.home, b.record = &again, record
	return b
}

func (b bench) sweep(now time.Time) int {
	b.t.Helper()
	filed, err := b.home.Sweep(b.t.Context(), now)
	if err != nil {
		b.t.Fatal(err)
	}
	return len(filed)
}

func TestSweepExpiresAbandonedWorkOnce(t *testing.T) {
	for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		b := newBench(t)
		b.file(b.step(1, b.alice, federation.Offer, in(d), due(federationtest.At(300))), b.step(2, b.bob, federation.Accept, in(d)))
		silent := b.now.Add(b.home.Limits.Abandoned)
		if n := b.sweep(silent.Add(-time.Second)); n != 0 {
			t.Errorf("%s: %d expired a second early", d, n)
		}
		b.now = federationtest.At(60)
		b.file(b.step(60, b.bob, federation.Progress, in(d))) // a sign of life
		silent = b.now.Add(b.home.Limits.Abandoned)
		if n := b.sweep(silent.Add(-time.Second)); n != 0 {
			t.Errorf("%s: %d expired a second early, after progress", d, n)
		}
		b = b.restarted()
		if n := b.sweep(silent); n != 1 {
			t.Errorf("%s: %d expired, want the one", d, n)
		}
		b = b.restarted()
		if n := b.sweep(silent.Add(time.Hour)); n != 0 {
			t.Errorf("%s: %d expired again after a restart", d, n)
		}
		if view := b.view(1); view.State != federation.Expired || view.Version != 4 {
			t.Errorf("%s: view %+v", d, view)
		}
		for _, did := range []federation.DID{b.alice.did, b.bob.did} {
			inbox, err := b.record.Replay(t.Context(), did, "", 10)
			if err != nil || inbox[len(inbox)-1].Event.Verb != federation.Expire {
				t.Errorf("%s: %s was not told (%v)", d, did, err)
			}
		}
	}
}

func TestSweepFollowsTheClocksOfABounty(t *testing.T) {
	b := newBench(t)
	b.file(
		b.step(1, b.alice, federation.Offer, ofBounty), b.step(2, b.bob, "bid", ofBounty),
		b.step(3, b.alice, "award", ofBounty, accepting(2)), b.step(4, b.bob, "submit", ofBounty),
		b.step(11, b.alice, federation.Offer, ofBounty, due(federationtest.At(100))), // no award comes in time
	)
	const review = 336 * time.Hour
	for _, pass := range []struct {
		at   time.Time
		want int
	}{{federationtest.At(219), 0}, {federationtest.At(220), 1}, {b.now.Add(review - time.Second), 0}, {b.now.Add(review), 1}, {b.now.Add(2 * review), 0}} {
		if n := b.sweep(pass.at); n != pass.want {
			t.Errorf("at %s: %d ended, want %d", pass.at, n, pass.want)
		}
	}
	if view := b.view(1); view.State != "accepted" || view.Assignee != b.bob.did {
		t.Errorf("whose work nobody looked at: %+v", view)
	}
	if view := b.view(11); view.State != federation.Expired {
		t.Errorf("which nobody awarded: %+v", view)
	}
}

func TestSweepWithoutLimitsExpiresNothing(t *testing.T) {
	b := newBench(t)
	b.home.Limits.Unanswered, b.home.Limits.Abandoned = 0, 0
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.alice, federation.Offer), b.step(3, b.bob, federation.Accept, of(2)))
	if n := b.sweep(b.now.AddDate(50, 0, 0)); n != 0 {
		t.Errorf("%d expired", n)
	}
}

// late is a record in which each handoff moves after the sweep has read that it is due, and
// before the home files its end.
type late struct {
	home.Record

	move func()
}

func (l late) ListDue(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error) {
	views, err := l.Record.ListDue(ctx, clock, since, limit)
	if len(views) > 0 {
		l.move()
	}
	return views, err
}

func TestSweepYieldsToLaterProgress(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept))
	silent := b.now.Add(b.home.Limits.Abandoned)
	b.home.Record = late{b.record, func() {
		b.now, b.home.Limits.ClockSkew = silent, 0
		b.file(b.step(3, b.bob, federation.Progress))
	}}
	if n := b.sweep(silent); n != 0 {
		t.Errorf("%d expired, of somebody who just spoke", n)
	}
	if view := b.view(1); view.State != federation.Assigned {
		t.Errorf("view %+v", view)
	}
}

func race(one, other func() error) (first, second error) {
	var both sync.WaitGroup
	start := make(chan struct{})
	both.Go(func() { <-start; first = one() })
	both.Go(func() { <-start; second = other() })
	close(start)
	both.Wait()
	return first, second
}

func TestAppendLetsOneOfTwoRivalsWin(t *testing.T) {
	for name, rival := range map[string]func(bench) error{
		"expiry": func(b bench) error {
			filed, err := b.home.Sweep(b.t.Context(), federationtest.At(220))
			if err == nil && len(filed) == 0 {
				return federation.Refuse(federation.Event{}, federation.TerminalHandoff, "")
			}
			return err
		},
		"cancel": func(b bench) error {
			_, err := b.home.Submit(b.t.Context(), b.step(3, b.alice, federation.Cancel), federationtest.At(220))
			return err
		},
	} {
		t.Run("an accept and the "+name, func(t *testing.T) {
			for range 5 {
				raceAccept(t, rival)
			}
		})
	}
}

// raceAccept lets an accept race something else, over a record on disk. One of them
// wins, and has won after a restart as well.
func raceAccept(t *testing.T, rival func(bench) error) {
	t.Helper()
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer, due(federationtest.At(100))))
	accept := b.step(2, b.bob, federation.Accept)
	accepting := func() error {
		_, err := b.home.Submit(t.Context(), accept, federationtest.At(100))
		return err
	}
	accepted, ended := race(accepting, func() error { return rival(b) })
	if (accepted == nil) == (ended == nil) {
		t.Fatalf("accept: %v; the other: %v; want one of them", accepted, ended)
	}
	for _, err := range []error{accepted, ended} {
		if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && !refused {
			t.Errorf("the loser was told %v", err)
		}
	}
	before := b.view(1)
	if won := before.State == federation.Assigned; won != (accepted == nil) || before.Version != 2 {
		t.Errorf("view %+v, accept %v", before, accepted)
	}
	if after := b.restarted().view(1); after.State != before.State {
		t.Errorf("%s before the restart, %s after", before.State, after.State)
	}
}
