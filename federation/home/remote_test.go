package home_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
)

const elsewhere = federation.HomeID("irc.example")

func over(ev *federation.Event) {
	ev.Dialect = federation.ActTags
	ev.Arrival.Network, ev.Arrival.Link, ev.Arrival.Home = "freeq", "freeq", elsewhere
}

func (b bench) receipt(n int, server person, of federation.Event, change ...func(*federation.Event)) federation.Event {
	b.t.Helper()
	return b.step(n, server, federation.Confirm, append([]func(*federation.Event){over, func(ev *federation.Event) { ev.Subject = of.ID }}, change...)...)
}

func visited(t *testing.T) (b bench, server person, offer federation.Event) {
	t.Helper()
	b = newBench(t)
	server = newPerson("irc server")
	server.did = elsewhere.DID()
	known, _ := b.home.Keys.(keys)
	known[server.did] = server.key.Public
	offer = b.step(1, b.alice, federation.Offer, over)
	b.file(offer)
	return b, server, offer
}

func (b bench) state() federation.State {
	b.t.Helper()
	view, err := b.record.View(b.t.Context(), federationtest.ID(1))
	if err != nil {
		b.t.Fatal(err)
	}
	return view.State
}

func codeOf(err error) federation.RefusalCode {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return refused.Code
	}
	return ""
}

func TestSubmitKeepsAStepForItsRemoteHome(t *testing.T) {
	b, server, offer := visited(t)
	accept := b.step(2, b.bob, federation.Accept, in(federation.ActTags))
	b.home.Limits.ClockSkew = 2 * time.Minute
	for _, later := range []time.Duration{0, time.Hour} {
		judged, err := b.home.Submit(t.Context(), accept, b.now.Add(later))
		if again := later > 0; err != nil || !judged.Awaits || judged.Duplicate != again || judged.Entry.Event.ID != accept.ID {
			t.Fatalf("judged %+v, %v; want held", judged, err)
		}
	}
	if got := b.state(); got != federation.Offered {
		t.Errorf("state %s before the home ruled", got)
	}
	judged, err := b.home.Submit(t.Context(), b.receipt(3, server, accept), b.now)
	if err != nil || judged.Awaits || judged.Entry.Event.ID != accept.ID || judged.Entry.Version != 2 {
		t.Fatalf("the receipt: %+v, %v; want the accept filed", judged, err)
	}
	if got := b.state(); got != federation.Assigned {
		t.Errorf("state %s, want assigned", got)
	}
	if held, err := b.record.ListPendingIn(t.Context(), offer.ID); err != nil || len(held) > 0 {
		t.Errorf("%d steps still wait (%v)", len(held), err)
	}
	judged, err = b.home.Submit(t.Context(), b.receipt(4, server, accept), b.now)
	if err != nil || !judged.Duplicate {
		t.Errorf("the receipt again: %+v, %v; want a duplicate", judged, err)
	}
}

func TestSubmitTakesReceiptsOnlyOfTheHome(t *testing.T) {
	b, server, _ := visited(t)
	accept := b.step(2, b.bob, federation.Accept, in(federation.ActTags))
	b.file(accept)
	for name, receipt := range map[string]federation.Event{
		"somebody else":     b.receipt(3, b.carol, accept),
		"another link":      b.receipt(3, server, accept, func(ev *federation.Event) { ev.Arrival.Home = "other.example" }),
		"no home's link":    b.receipt(3, server, accept, func(ev *federation.Event) { ev.Arrival.Home = "" }),
		"a step of nowhere": b.receipt(3, server, b.step(9, b.bob, federation.Accept)),
	} {
		want := federation.WrongSender
		if name == "a step of nowhere" {
			want = federation.WrongReference
		}
		if _, err := b.home.Submit(t.Context(), receipt, b.now); codeOf(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if got := b.state(); got != federation.Offered {
		t.Errorf("state %s, want offered", got)
	}
}

func TestSubmitRefusesReceiptsOfItsOwnHandoffs(t *testing.T) {
	b := newBench(t)
	server := newPerson("irc server")
	server.did = elsewhere.DID()
	known, _ := b.home.Keys.(keys)
	known[server.did] = server.key.Public
	offer := b.step(1, b.alice, federation.Offer, in(federation.ActTags))
	b.file(offer)
	for _, verb := range []federation.Verb{federation.Confirm, federation.Expire} {
		if _, err := b.home.Submit(t.Context(), b.step(2, server, verb, over), b.now); codeOf(err) == "" {
			t.Errorf("%s of another home was filed", verb)
		}
	}
}

func TestSubmitRefusesIllegalRemoteStepsAtOnce(t *testing.T) {
	b, _, _ := visited(t)
	act := in(federation.ActTags)
	for name, test := range map[string]struct {
		step federation.Event
		code federation.RefusalCode
	}{
		"the wrong one accepts":  {b.step(2, b.carol, federation.Accept, act), federation.WrongSender},
		"done before it is his":  {b.step(3, b.bob, federation.Complete, act), federation.IllegalStep},
		"progress before accept": {b.step(4, b.bob, federation.Progress, act), federation.IllegalStep},
	} {
		if _, err := b.home.Submit(t.Context(), test.step, b.now); codeOf(err) != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
}

func TestSubmitKeepsStepsBehindAPendingOne(t *testing.T) {
	b, server, offer := visited(t)
	act := in(federation.ActTags)
	accept, progress, complete := b.step(2, b.bob, federation.Accept, act), b.step(3, b.bob, federation.Progress, act), b.step(4, b.bob, federation.Complete, act)
	b.file(accept, progress, complete)
	if rulings, err := b.home.Settle(t.Context(), offer.ID, b.now); err != nil || len(rulings) != 0 {
		t.Fatalf("before the ruling: %d settled, %v", len(rulings), err)
	}
	b.file(b.receipt(5, server, accept))
	rulings, err := b.home.Settle(t.Context(), offer.ID, b.now)
	if err != nil || len(rulings) != 1 || rulings[0].Event.ID != progress.ID || rulings[0].Refused != nil {
		t.Fatalf("settled %+v, %v; want the progress filed", rulings, err)
	}
	b.file(b.receipt(6, server, complete))
	var verbs []federation.Verb
	for entry, err := range b.record.Log(t.Context(), offer.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		verbs = append(verbs, entry.Event.Verb)
	}
	want := []federation.Verb{federation.Offer, federation.Accept, federation.Progress, federation.Complete}
	if diff := cmp.Diff(want, verbs); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// overtaken is a record in which something happens before a step is kept, once.
type overtaken struct {
	home.Record

	by *func()
}

func (o overtaken) KeepPending(ctx context.Context, p federation.Pending, after federation.Version) error {
	if by := *o.by; by != nil {
		*o.by = nil
		by()
	}
	return o.Record.KeepPending(ctx, p, after)
}

func TestSubmitJudgesAgainAfterARuling(t *testing.T) {
	b, server, offer := visited(t)
	act := in(federation.ActTags)
	accept, progress := b.step(2, b.bob, federation.Accept, act), b.step(3, b.bob, federation.Progress, act)
	b.file(accept)
	ruled := func() {
		b.file(b.receipt(4, server, accept))
		if rulings, err := b.home.Settle(t.Context(), offer.ID, b.now); err != nil || len(rulings) != 0 {
			t.Errorf("settled %+v, %v", rulings, err)
		}
	}
	b.home.Record = overtaken{b.record, &ruled}
	judged, err := b.home.Submit(t.Context(), progress, b.now)
	if err != nil || judged.Awaits || judged.Entry.Version != 3 {
		t.Errorf("the progress: %+v, %v; want it filed", judged, err)
	}
	if held, err := b.record.ListPendingIn(t.Context(), offer.ID); err != nil || len(held) > 0 {
		t.Errorf("%d steps wait for nothing (%v)", len(held), err)
	}
}

// passed is a record in which something happens before a snapshot is read, once.
type passed struct {
	home.Record

	by *func()
}

func (p passed) Snapshot(ctx context.Context, q federation.SnapshotQuery) (federation.Snapshot, error) {
	if by := *p.by; by != nil {
		*p.by = nil
		by()
	}
	return p.Record.Snapshot(ctx, q)
}

func TestSubmitRefusesNothingForALaterRuling(t *testing.T) {
	for _, verb := range []federation.Verb{federation.Progress, federation.Complete} {
		t.Run(string(verb), func(t *testing.T) {
			waits := verb == federation.Complete // the other one moves nothing
			b, server, _ := visited(t)
			act := in(federation.ActTags)
			accept, next := b.step(2, b.bob, federation.Accept, act), b.step(3, b.bob, verb, act)
			b.file(accept)
			ruled := func() { b.file(b.receipt(4, server, accept)) }
			b.home.Record = passed{b.record, &ruled}
			if judged, err := b.home.Submit(t.Context(), next, b.now); err != nil || judged.Awaits != waits {
				t.Errorf("%+v, %v; want it to wait: %t", judged, err, waits)
			}
		})
	}
}

func TestSettleRefusesTheLoserOfARace(t *testing.T) {
	b, server, _ := visited(t)
	act := in(federation.ActTags)
	open := func(ev *federation.Event) {
		ev.To, ev.Handoff, ev.ID = "", federationtest.ID(10), federationtest.ID(10)
	}
	of := func(ev *federation.Event) { ev.Handoff = federationtest.ID(10) }
	offer := b.step(10, b.alice, federation.Offer, over, open)
	first, second := b.step(11, b.bob, federation.Claim, act, of), b.step(12, b.carol, federation.Claim, act, of)
	b.file(offer, first, second, b.receipt(13, server, second, of))
	rulings, err := b.home.Settle(t.Context(), offer.ID, b.now)
	if err != nil || len(rulings) != 1 || rulings[0].Event.ID != first.ID || rulings[0].Refused == nil {
		t.Fatalf("settled %+v, %v; want the first claim ruled out", rulings, err)
	}
	if err := b.home.Drop(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if rulings, err := b.home.Settle(t.Context(), offer.ID, b.now); err != nil || len(rulings) != 0 {
		t.Errorf("after it was dropped: %+v, %v", rulings, err)
	}
}

func TestSweepLeavesRemoteHandoffs(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer, over, due(federationtest.At(100))))
	if filed, err := b.home.Sweep(t.Context(), federationtest.At(1_000_000)); err != nil || len(filed) != 0 {
		t.Errorf("%d ended, %v", len(filed), err)
	}
}

func TestFileRuledAcceptsOldSteps(t *testing.T) {
	b := newBench(t)
	b.home.Limits.EventsPerMinute = 1
	b.file(b.step(1, b.alice, federation.Offer, in(federation.ActTags)))
	b.now = b.now.Add(3 * time.Hour)
	b.file(b.step(2, b.bob, federation.Accept, over), b.step(3, b.bob, federation.Progress, over), b.step(4, b.bob, federation.Complete, over))
}

func TestReceiptIsDeterministic(t *testing.T) {
	b := newBench(t)
	act := in(federation.ActTags)
	accept := b.step(2, b.bob, federation.Accept, act)
	b.file(b.step(1, b.alice, federation.Offer, act), accept)
	judged, err := b.home.Submit(t.Context(), accept, b.now.Add(time.Hour))
	if err != nil || !judged.Duplicate {
		t.Fatalf("judged %+v, %v", judged, err)
	}
	again, err := b.home.Receipt(t.Context(), judged.Entry, judged.View)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := b.record.Outbox(t.Context(), "lab", federation.Delivery{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	filed := rows[len(rows)-1].Entry.Event
	if filed.Verb != federation.Confirm || filed.ID != again.ID || filed.Signature.Text != again.Signature.Text {
		t.Errorf("filed %s %s, made again %s", filed.Verb, filed.ID, again.ID)
	}
}
