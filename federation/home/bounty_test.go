package home_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

const bounty federation.Kind = "bounty"

// ofBounty makes a step one of a bounty; an offer of one is open.
func ofBounty(ev *federation.Event) { ev.Kind, ev.To = bounty, "" }

func accepting(n int) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Accepts = federationtest.ID(n) }
}

func replacing(n int) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Replaces = federationtest.ID(n) }
}

func of(n int) func(*federation.Event) {
	return func(ev *federation.Event) { ev.Handoff = federationtest.ID(n) }
}

func (b bench) refusal(ev federation.Event) federation.RefusalCode {
	b.t.Helper()
	_, err := b.home.Submit(b.t.Context(), ev, b.now)
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok {
		b.t.Fatalf("%s: %v, want a refusal", ev.Verb, err)
	}
	return refused.Code
}

// view returns the handoff opened by the n-th step. It must equal its log.
func (b bench) view(n int) federation.View {
	b.t.Helper()
	view, err := b.record.View(b.t.Context(), federationtest.ID(n))
	if err != nil {
		b.t.Fatal(err)
	}
	replayed, err := b.home.Kinds.Replay(b.home.ID, b.record.Log(b.t.Context(), view.ID, 0))
	if diff := cmp.Diff(view, replayed); err != nil || diff != "" {
		b.t.Errorf("the log of %s says otherwise (%v) (-filed +replayed):\n%s", view.ID, err, diff)
	}
	return view
}

func TestBountyRunsFromOfferToAcceptedWork(t *testing.T) {
	for _, d := range []federation.Dialect{federation.ActTags, federation.HandoffTags} {
		b := newBench(t)
		b.file(
			b.step(1, b.alice, federation.Offer, ofBounty, in(d)),
			b.step(2, b.bob, "bid", ofBounty, in(d)), b.step(3, b.carol, "bid", ofBounty, in(d)),
			b.step(4, b.alice, "award", ofBounty, in(d), accepting(3)),
			b.step(5, b.carol, federation.Progress, ofBounty, in(d)), b.step(6, b.carol, "submit", ofBounty, in(d)),
			b.step(7, b.alice, "revise", ofBounty, in(d)), b.step(8, b.carol, "submit", ofBounty, in(d)),
		)
		if code := b.refusal(b.step(9, b.bob, "forfeit", ofBounty, in(d))); code != federation.WrongSender {
			t.Errorf("whose bid was not taken was told %s", code)
		}
		b.file(b.step(10, b.alice, "accept-work", ofBounty, in(d)))
		if view := b.view(1); view.State != "accepted" || view.Assignee != b.carol.did || !view.Over || view.Answered != 4 {
			t.Errorf("view %+v", view)
		}
	}
}

func TestBountyRefusesWithCodes(t *testing.T) {
	b := newBench(t)
	until := func(ev *federation.Event) { ev.BidDeadline, ev.Deadline = federationtest.At(10), federationtest.At(5) }
	b.file(
		b.step(1, b.alice, federation.Offer, ofBounty, until), b.step(2, b.bob, "bid", ofBounty),
		b.step(11, b.alice, federation.Offer, ofBounty), b.step(12, b.carol, "bid", ofBounty, of(11)),
		b.step(13, b.bob, federation.Offer),
	)
	b.now = federationtest.At(140)
	for name, test := range map[string]struct {
		step federation.Event
		code federation.RefusalCode
	}{
		"an offer to one DID": {
			b.step(20, b.alice, federation.Offer, func(ev *federation.Event) { ev.Kind = bounty }), federation.IllegalStep,
		},
		"an award of nothing":             {b.step(21, b.alice, "award", ofBounty), federation.MissingRequirement},
		"an award of the offer":           {b.step(22, b.alice, "award", ofBounty, accepting(1)), federation.WrongReference},
		"an award of a bid for another":   {b.step(23, b.alice, "award", ofBounty, accepting(12)), federation.WrongReference},
		"an award of what nobody bid":     {b.step(24, b.alice, "award", ofBounty, accepting(99)), federation.WrongReference},
		"an award by a bidder":            {b.step(25, b.bob, "award", ofBounty, accepting(2)), federation.WrongSender},
		"an award after the deadline":     {b.step(126, b.alice, "award", ofBounty, accepting(2)), federation.DeadlinePassed},
		"a bid after the time for bids":   {b.step(131, b.carol, "bid", ofBounty), federation.DeadlinePassed},
		"a claim":                         {b.step(26, b.bob, federation.Claim, ofBounty), federation.UnknownVerb},
		"a step of a handoff":             {b.step(27, b.alice, federation.Cancel), federation.IllegalStep},
		"a step of a bounty on a handoff": {b.step(28, b.bob, federation.Cancel, ofBounty, of(13)), federation.IllegalStep},
		"a kind that nobody knows": {
			b.step(29, b.alice, federation.Offer, func(ev *federation.Event) { ev.Kind = "approval" }), federation.UnknownKind,
		},
	} {
		if code := b.refusal(test.step); code != test.code {
			t.Errorf("%s: %s, want %s", name, code, test.code)
		}
	}
	b.file(b.step(130, b.carol, "bid", ofBounty), b.step(125, b.alice, "award", ofBounty, accepting(2))) // to the second
	if view := b.view(1); view.Assignee != b.bob.did {
		t.Errorf("view %+v", view)
	}
}

func TestBountyBidBelongsToItsFirstSigner(t *testing.T) {
	b := newBench(t)
	b.file(
		b.step(1, b.alice, federation.Offer, ofBounty), b.step(2, b.bob, "bid", ofBounty),
		b.step(2, b.carol, "bid", ofBounty), // read the id on the wire, and bids under it too
		b.step(3, b.alice, "award", ofBounty, accepting(2)),
	)
	if view := b.view(1); view.Assignee != b.bob.did {
		t.Errorf("the work went to %s", view.Assignee)
	}
}

func TestReofferNamesTheReplacedHandoff(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer))
	if code := b.refusal(b.step(2, b.alice, federation.Offer, replacing(1))); code != federation.ReplacesNotTerminal {
		t.Errorf("while it is offered: %s", code)
	}
	b.file(b.step(3, b.bob, federation.Decline), b.step(4, b.alice, federation.Offer, replacing(1)))
	if view := b.view(4); view.Replaces != federationtest.ID(1) || view.State != federation.Offered {
		t.Errorf("view %+v", view)
	}
	if view := b.view(1); view.State != federation.Declined {
		t.Errorf("the one replaced is %s", view.State)
	}
	b.file(b.step(5, b.carol, federation.Offer, replacing(99))) // it may be over at another home
	if view := b.view(5); view.Replaces != federationtest.ID(99) {
		t.Errorf("view %+v", view)
	}
	if code := b.refusal(b.step(6, b.alice, federation.Offer, replacing(6))); code != federation.InvalidTag {
		t.Errorf("itself: %s", code)
	}
	if code := b.refusal(b.step(7, b.bob, federation.Accept, of(4), replacing(1))); code != federation.InvalidTag {
		t.Errorf("a step that opens nothing: %s", code)
	}
}

// approval is a kind that does not ship, with a clock of its own.
const approval = `{"version": 1, "windows": {"notice": "1h"}, "kinds": {"approval": {
	"opens": {"directed": "asked"}, "over": ["granted", "lapsed"],
	"rules": [
		{"verb": "question", "from": ["asked"], "who": "offeree", "to": "asked"},
		{"verb": "grant", "from": ["asked"], "who": "offeree", "to": "granted", "by": "deadline"},
		{"verb": "lapse", "from": ["asked"], "who": "system", "to": "lapsed"}],
	"waits": [{"in": ["asked"], "clock": "notice", "then": "lapse"}]}}}`

func (b bench) overTheWire(by person, ev federation.Event) federation.Event {
	b.t.Helper()
	var losses []federation.Loss
	ev.Fields, losses = dialect.Write(ev)
	sealed, err := signing.Seal(b.t.Context(), by.key, ev)
	if err != nil || len(losses) > 0 {
		b.t.Fatal(err, losses)
	}
	m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: sealed}})
	if err != nil {
		b.t.Fatal(err)
	}
	read, err := dialect.Decode(m)
	if err != nil {
		b.t.Fatal(err)
	}
	read.Arrival = ev.Arrival
	return read
}

func TestKindNeedsOnlyATable(t *testing.T) {
	kinds, err := lifecycle.Parse([]byte(approval))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []federation.Dialect{federation.ActTags, federation.HandoffTags} {
		b := newBench(t)
		b.home.Kinds = kinds
		ofApproval := func(ev *federation.Event) { ev.Kind, ev.Dialect = "approval", d }
		b.file(
			b.overTheWire(b.alice, b.step(1, b.alice, federation.Offer, ofApproval)),
			b.overTheWire(b.bob, b.step(2, b.bob, "question", ofApproval)),
		)
		if code := b.refusal(b.overTheWire(b.carol, b.step(3, b.carol, "grant", ofApproval))); code != federation.WrongSender {
			t.Errorf("%s: a stranger's grant: %s", d, code)
		}
		b.file(b.overTheWire(b.bob, b.step(4, b.bob, "grant", ofApproval)))
		if view := b.view(1); view.State != "granted" || !view.Over {
			t.Errorf("%s: view %+v", d, view)
		}

		b.file(b.overTheWire(b.alice, b.step(5, b.alice, federation.Offer, ofApproval)))
		if n := b.sweep(b.now.Add(time.Hour - time.Second)); n != 0 {
			t.Errorf("%s: %d ended a second early", d, n)
		}
		if n := b.sweep(b.now.Add(time.Hour)); n != 1 {
			t.Errorf("%s: %d ended, want the one", d, n)
		}
		if view := b.view(5); view.State != "lapsed" || view.Version != 2 {
			t.Errorf("%s: view %+v", d, view)
		}
		if code := b.refusal(b.overTheWire(b.alice, b.step(6, b.alice, federation.Offer, in(d)))); code != federation.UnknownKind {
			t.Errorf("%s: a kind that this home does not keep: %s", d, code)
		}
	}
}
