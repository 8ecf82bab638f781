package home_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/home"
)

// in sets the dialect of a step.
func in(d federation.Dialect) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Dialect = d }
}

func due(at time.Time) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Deadline = at }
}

func TestAnUnansweredOfferExpiresOnce(t *testing.T) {
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

func TestWhatWasAnsweredDoesNotExpire(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer, due(federationtest.At(100))), b.step(2, b.bob, federation.Accept))
	if filed, err := b.home.Sweep(t.Context(), federationtest.At(3600)); err != nil || len(filed) != 0 {
		t.Errorf("%d expired, %v", len(filed), err)
	}
}

func TestManyOverdueAtOnce(t *testing.T) {
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

func TestReceiptsInTheActDialect(t *testing.T) {
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
		rows, err := b.record.Outbox(t.Context(), "lab", 0, 100)
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

func TestTheActDialectLetsTheOffererCancelAssignedWork(t *testing.T) {
	b := newBench(t)
	act := in(federation.ActTags)
	b.file(b.step(1, b.alice, federation.Offer, act), b.step(2, b.bob, federation.Accept, act), b.step(3, b.alice, federation.Cancel, act))
}

func TestAHandoffKeepsTheRulesOfItsOpener(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer), b.step(2, b.bob, federation.Accept))
	_, err := b.home.Submit(t.Context(), b.step(3, b.alice, federation.Cancel, in(federation.ActTags)), b.now)
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.IllegalStep {
		t.Errorf("a cancel in the other dialect: %v, want illegal-step", err)
	}
}

func TestAnOfferMayBeWrittenElsewhereThanItWasSignedFor(t *testing.T) {
	b := newBench(t)
	pair := federation.PrivateVenue(b.alice.did, b.bob.did)
	b.file(b.step(1, b.alice, federation.Offer, func(ev *federation.Event) {
		ev.Venue, ev.Arrival.Place = pair, federation.Place{Venue: "#ops"}
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

func TestAnAgentMayAnswerAsAnyOfItsDIDs(t *testing.T) {
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

func TestLimits(t *testing.T) {
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
		b.home.Same = func(_ context.Context, signer, of federation.DID) bool {
			return signer == b.carol.did && of == b.alice.did
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

func TestRatesLeft(t *testing.T) {
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
