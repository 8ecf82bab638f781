package freeq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// known returns a handoff that alice offers on the server, and the gateway knows.
func (h *house) known(t *testing.T, to federation.DID) federation.View {
	t.Helper()
	alice := h.alice()
	id, err := alice.Offer(channel, to, "Review it")
	if err != nil {
		t.Fatal(err)
	}
	offer := h.gateway.next(t)
	if offer.ID != id || offer.Arrival.Home != theirs {
		t.Fatalf("submitted %+v", offer)
	}
	v := federation.View{
		ID: id, Kind: federation.Handoff, Dialect: federation.ActTags, Version: 1, State: federation.Offered, Home: theirs, Remote: true,
		Venue: channel, Offerer: alice.DID, Offeree: to,
	}
	h.gateway.know(v)
	return v
}

// guest makes a step of scout wait for the ruling of the server, in a handoff that
// alice opened there.
func (h *house) guest(t *testing.T, verb federation.Verb, to federation.DID) federation.Pending {
	t.Helper()
	return h.awaits(t, h.step(t, federation.Delivery{View: h.known(t, to)}, "scout", verb, federation.Assigned))
}

// awaits makes a step wait for the ruling of the server.
func (h *house) awaits(t *testing.T, d federation.Delivery) federation.Pending {
	t.Helper()
	p := federation.Pending{Event: d.Entry.Event, Home: theirs, Since: time.Now()}
	if err := h.record.KeepPending(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	h.wakes.Wake(bridge.RulingTopic(theirs))
	return p
}

func TestRulingsSubmitTheReceiptOfAStep(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	scout, _ := person("scout")
	p := h.guest(t, federation.Accept, scout)
	receipt := h.gateway.next(t)
	if receipt.Verb != federation.Confirm || receipt.Subject != p.Event.ID || receipt.From != "did:web:"+theirs {
		t.Errorf("submitted %+v", receipt)
	}
	for _, m := range h.server.Said() {
		if m["type"] == "act_route" {
			t.Error("it was routed although it was confirmed at once")
		}
	}
	h.expectNothingOdd(t)
}

// The ruling on an earlier step files the next one, which then has a delivery while its submission is
// in flight.
func TestRulingsLeaveNothingToDeliver(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	scout, _ := person("scout")
	accept := h.guest(t, federation.Accept, scout)
	h.gateway.next(t) // the receipt
	if err := h.record.ResolvePending(t.Context(), accept.Event.Handoff, scout, accept.Event.ID); err != nil {
		t.Fatal(err)
	}
	v, err := h.gateway.View(t.Context(), accept.Event.Handoff)
	if err != nil {
		t.Fatal(err)
	}
	v.State, v.Assignee = federation.Assigned, scout
	h.gateway.know(v)
	h.server.Stall(300 * time.Millisecond) // the log is read after both
	progress := h.step(t, federation.Delivery{View: v}, "scout", federation.Progress, federation.Assigned)
	h.awaits(t, progress)
	h.deliver(t, progress)
	if n := h.written("progress"); n != 1 {
		t.Errorf("the step is written %d times, want once", n)
	}
	h.expectNothingOdd(t)
}

// A step after an accept in flight is judged by the ruling on the accept, which the server may not have yet.
func TestRulingsAdmitAStepBehindAPendingOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	scout, _ := person("scout")
	v := h.known(t, scout)
	h.deliver(t, h.offered(t, channel)) // which reads the log: it has the offer of alice, and no accept
	accept := federation.Pending{Event: h.step(t, federation.Delivery{View: v}, "scout", federation.Accept, federation.Assigned).Entry.Event, Home: theirs, Since: time.Now()}
	progress := federation.Pending{Event: h.step(t, federation.Delivery{View: v}, "scout", federation.Progress, federation.Assigned).Entry.Event, Home: theirs, Since: time.Now()}
	if err := h.link.Admits(patient(t), progress); err == nil || !strings.Contains(err.Error(), "the server lacks the step that assigned it") {
		t.Errorf("without an accept: %v, want a refusal", err)
	}
	if err := h.record.KeepPending(t.Context(), accept, 0); err != nil { // nothing wakes the link, so that the accept stays in flight
		t.Fatal(err)
	}
	if err := h.link.Admits(patient(t), progress); err != nil {
		t.Errorf("behind a pending accept: %v", err)
	}
}

func TestRulingsRouteAStepUntilItsReceipt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	h.server.Mute(federation.Confirm, true)
	scout, _ := person("scout")
	p := h.guest(t, federation.Accept, scout)
	isRoute := func(m map[string]any) bool {
		return m["type"] == "act_route" && m["act_event_id"] == p.Event.ID.String()
	}
	if _, err := h.server.AwaitLine(patient(t), "the route", isRoute); err != nil {
		t.Fatal(err)
	}
	h.server.Mute(federation.Confirm, false)
	if receipt := h.gateway.next(t); receipt.Subject != p.Event.ID {
		t.Errorf("submitted %+v", receipt)
	}
	h.expectNothingOdd(t)
}

func TestRulingsEndARefusedStep(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	scout, _ := person("scout")
	h.guest(t, federation.Complete, scout) // before an accept
	h.givenUp(t, federation.IllegalStep)
	if left, err := h.record.ListPending(t.Context(), theirs, 10); err != nil || len(left) != 0 {
		t.Errorf("%d wait (%v)", len(left), err)
	}
	h.expectNothingOdd(t)
}

// givenUp waits until a step is given up for a reason.
func (h *house) givenUp(t *testing.T, want federation.RefusalCode) {
	t.Helper()
	select {
	case code := <-h.gaveUp:
		if code != want {
			t.Errorf("given up for %s, want %s", code, want)
		}
	case <-time.After(patience):
		t.Fatal("it waits for ever")
	}
}

// A server takes the answer to a directed offer only from the DID of the offer.
func TestRulingsRefuseAnswersOfAnotherDID(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	other, _ := person("another agent")
	h.guest(t, federation.Accept, other)
	h.givenUp(t, federation.NeedSignature)
	for _, m := range h.server.Said() {
		if isStep("accept")(m) {
			t.Errorf("it is written: %v", m)
		}
	}
}

func TestRulingsKeepAReceiptAheadOfItsStep(t *testing.T) {
	h := newHouse(t)
	known := make(chan struct{})
	h.gateway.answer = func(ev federation.Event) (federation.Judgement, error) {
		select {
		case <-known:
		default:
			if ev.Verb == federation.Confirm {
				return federation.Judgement{}, federation.Refuse(ev, federation.WrongReference, "")
			}
		}
		if ev.Verb == federation.Accept {
			close(known)
		}
		return federation.Judgement{}, nil
	}
	h.run(t)
	alice := h.alice()
	id, err := alice.Offer(channel, alice.DID, "Note to self")
	if err != nil {
		t.Fatal(err)
	}
	h.gateway.next(t)
	h.server.Mute(federation.Accept, true)
	accept, err := alice.Step(channel, id, federation.Accept, "") // the receipt goes out, the step does not
	if err != nil {
		t.Fatal(err)
	}
	h.server.Mute(federation.Accept, false)
	h.server.Repeat(accept)
	if ev := h.gateway.next(t); ev.Verb != federation.Accept {
		t.Fatalf("submitted %s", ev.Verb)
	}
	if ev := h.gateway.next(t); ev.Verb != federation.Confirm || ev.Subject != accept {
		t.Errorf("submitted %s", ev.Verb)
	}
}
