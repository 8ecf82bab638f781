package freeq_test

import (
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// rendition returns a step as the gateway writes it for a signer whose signature the server
// cannot check.
func rendition(t *testing.T, h *house, d federation.Delivery) federation.Delivery {
	t.Helper()
	ev := d.Entry.Event
	did, key := person("scout")
	ev.Fields["act-src"], ev.Fields["act-src-h"] = "https://gw.test/evidence/00", "sha256:00"
	sealedEvent, err := sealed(t.Context(), signer(did, key), ev)
	if err != nil {
		t.Fatal(err)
	}
	d.Entry.Event = sealedEvent
	return d
}

func TestEchoIsNoStepOfThePeer(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	d := rendition(t, h, h.offered(t, channel))
	if err := h.link.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	h.server.Repeat(d.Entry.Event.ID)
	id, err := h.alice().Offer(channel, "", "honest")
	if err != nil {
		t.Fatal(err)
	}
	if ev := h.gateway.next(t); ev.ID != id {
		t.Errorf("submitted %s of %s", ev.Verb, ev.From)
	}
}

func TestEchoOfAStepIsAnsweredWithItsReceipt(t *testing.T) {
	h := newHouse(t)
	opened := h.offered(t, channel)
	withdrawn := rendition(t, h, h.step(t, opened, "scout", federation.Cancel, federation.Cancelled))
	withdrawn.Entry.Filed = time.Now().Add(-time.Minute)
	step := withdrawn.Entry.Event
	view := federation.View{}
	for _, d := range []federation.Delivery{opened, withdrawn} {
		f := federationtest.File(d.Entry.Event, view)
		f.Filed = withdrawn.Entry.Filed
		if _, err := h.record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		view = f.View
	}
	h.run(t)
	if err := h.link.Deliver(t.Context(), opened); err != nil {
		t.Fatal(err)
	}
	if err := h.link.Deliver(t.Context(), withdrawn); err != nil {
		t.Fatal(err)
	}
	receipt := func(m map[string]any) bool {
		tags, _ := m["tags"].(map[string]any)
		return tags["+freeq.at/act-subject"] == step.ID.String()
	}
	first, err := h.server.AwaitLine(patient(t), "the receipt", receipt)
	if err != nil {
		t.Fatal(err)
	}
	h.server.Route(step.ID)
	again := func(m map[string]any) bool { return receipt(m) && m["event_id"] != first["event_id"] }
	if _, err := h.server.AwaitLine(patient(t), "the receipt again", again); err != nil {
		t.Fatal(err)
	}
}

func TestRulingsAreCompletedOnceTheLinkIsUp(t *testing.T) {
	h := newHouse(t)
	d := h.step(t, h.offered(t, channel), "scout", federation.Accept, federation.Assigned)
	p := federation.Pending{Event: d.Entry.Event, Home: theirs, Since: time.Now()}
	if err := h.record.KeepPending(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	h.run(t)
	select {
	case id := <-h.settled:
		if id != d.View.ID {
			t.Errorf("settled %s", id)
		}
	case <-time.After(patience):
		t.Fatal("nothing was settled")
	}
}
