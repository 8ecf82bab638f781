package home_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
	"baton/federation/federationtest"
)

// giveUp ends what waits since a moment, and returns the handoffs that expired.
func (b bench) giveUp(before, now int) (expired []federation.HandoffID) {
	b.t.Helper()
	for more := true; more; {
		var filed []federation.Judgement
		var err error
		if filed, more, err = b.home.GiveUp(b.t.Context(), federationtest.At(before), federationtest.At(now)); err != nil {
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

// waits returns how many entries wait for a signer.
func (b bench) waits(who person) int {
	b.t.Helper()
	n, _, err := b.record.Waiting(b.t.Context(), who.did)
	if err != nil {
		b.t.Fatalf("Waiting: %v", err)
	}
	return n
}

func TestAnUnseenOfferExpiresTowardsItsOfferer(t *testing.T) {
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

func TestWhatIsNoUnseenOfferStopsWaitingAndStaysAsItIs(t *testing.T) {
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

// became returns what became of the steps of the first handoff.
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

func TestWhatWasReadIsDelivered(t *testing.T) {
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

func TestAStepOfAPrunedHandoffIsRefused(t *testing.T) {
	b := newBench(t)
	offer, decline := b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Decline)
	b.file(offer, decline, b.step(3, b.alice, federation.Offer))
	for _, row := range []string{"lab", "airc"} {
		if err := b.record.Settle(t.Context(), row, []int64{1, 2, 3, 4, 5, 6}, federation.Settlement{Shown: true}); err != nil {
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

func TestManyUnseenOffers(t *testing.T) {
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
