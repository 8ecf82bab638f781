package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// elsewhere is a home other than the record's own.
const elsewhere = federation.HomeID("irc.example")

func pending(n int, by federation.DID, offer federation.Event) federation.Pending {
	return federation.Pending{Event: federationtest.Step(n, offer, federation.Accept, by), Home: elsewhere, Since: federationtest.At(n)}
}

type remoteBook struct{ *registry.Record }

func (b remoteBook) hold(t *testing.T, all ...federation.Pending) {
	t.Helper()
	for _, h := range all {
		if err := b.KeepPending(t.Context(), h, 0); err != nil {
			t.Fatalf("Await(%s): %v", h.Event.ID, err)
		}
	}
}

func (b remoteBook) waiting(t *testing.T, limit int) []federation.Pending {
	t.Helper()
	steps, err := b.ListPending(t.Context(), elsewhere, limit)
	if err != nil {
		t.Fatalf("Awaiting: %v", err)
	}
	return steps
}

func runPendingRulings(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	for name, holds := range map[string]func(t *testing.T, b remoteBook){
		"what waits comes back as it was, oldest first, by home and by handoff": remoteReopens,
		"the same step waits once":                                      remoteWaitsOnce,
		"the same evidence under another id is the same step":           remoteOfOneEvidence,
		"a step waits in no handoff that has moved since it was judged": remoteThatMoved,
		"what is released waits no more, and may be released again":     remoteReleased,
		"what is filed by a ruling waits no more":                       remoteRuled,
	} {
		t.Run(name, func(t *testing.T) { holds(t, remoteBook{open(t)}) })
	}
}

func remoteReopens(t *testing.T, b remoteBook) {
	t.Helper()
	first, second := federationtest.Offer(1, ada, bob), federationtest.Offer(2, ada, bob)
	a, other, c := pending(3, bob, first), pending(4, bob, second), pending(5, cleo, first)
	other.Home = "other.example"
	b.hold(t, a, other, c)
	if d := diff([]federation.Pending{a, c}, b.waiting(t, 10)); d != "" {
		t.Errorf("Awaiting (-want +got):\n%s", d)
	}
	in, err := b.ListPendingIn(t.Context(), first.ID)
	if d := diff([]federation.Pending{a, c}, in); d != "" || err != nil {
		t.Errorf("AwaitingIn (%v, -want +got):\n%s", err, d)
	}
	for _, limit := range []int{-1, 0, 1} {
		if got := b.waiting(t, limit); len(got) != max(limit, 0) {
			t.Errorf("Awaiting of %d returns %d", limit, len(got))
		}
	}
}

func remoteWaitsOnce(t *testing.T, b remoteBook) {
	t.Helper()
	first := federationtest.Offer(1, ada, bob)
	a := pending(3, bob, first)
	again := a
	again.Since = federationtest.At(9)
	b.hold(t, a, again)
	if d := diff([]federation.Pending{a}, b.waiting(t, 10)); d != "" {
		t.Errorf("Awaiting (-want +got):\n%s", d)
	}
}

func remoteOfOneEvidence(t *testing.T, b remoteBook) {
	t.Helper()
	first := federationtest.Offer(1, ada, bob)
	a := pending(3, bob, first)
	a.Event.Provenance, a.Event.Evidence = federation.Vouched, &federation.Evidence{
		URL: "https://gw.example/evidence/1", Digest: [32]byte{1}, Bytes: []byte("original"), Source: [32]byte{2},
	}
	again := a
	again.Event.ID = federationtest.ID(9)
	b.hold(t, a, again)
	if steps := b.waiting(t, 10); len(steps) != 1 || steps[0].Event.ID != a.Event.ID {
		t.Errorf("%d wait, want the first alone", len(steps))
	}
	if original, err := b.Evidence(t.Context(), [32]byte{1}); err != nil || string(original) != "original" {
		t.Errorf("Evidence = %q, %v", original, err)
	}
}

func remoteThatMoved(t *testing.T, b remoteBook) {
	t.Helper()
	first := federationtest.Offer(1, ada, bob)
	opened := federationtest.File(first, federation.View{})
	if _, err := b.Append(t.Context(), opened); err != nil {
		t.Fatal(err)
	}
	late, timely := pending(3, bob, first), pending(4, bob, first)
	for _, after := range []federation.Version{0, 2} {
		if err := b.KeepPending(t.Context(), late, after); !errors.Is(err, federation.ErrStale) {
			t.Errorf("Await after version %d: %v, want ErrStale", after, err)
		}
	}
	if err := b.KeepPending(t.Context(), timely, 1); err != nil {
		t.Errorf("Await after version 1: %v", err)
	}
	if d := diff([]federation.Pending{timely}, b.waiting(t, 10)); d != "" {
		t.Errorf("Awaiting (-want +got):\n%s", d)
	}
}

func remoteReleased(t *testing.T, b remoteBook) {
	t.Helper()
	first := federationtest.Offer(1, ada, bob)
	a, c := pending(3, bob, first), pending(5, cleo, first)
	b.hold(t, a, c)
	for range 2 {
		if err := b.ResolvePending(t.Context(), first.ID, bob, a.Event.ID); err != nil {
			t.Errorf("Ruled: %v", err)
		}
	}
	if d := diff([]federation.Pending{c}, b.waiting(t, 10)); d != "" {
		t.Errorf("Awaiting (-want +got):\n%s", d)
	}
}

func remoteRuled(t *testing.T, b remoteBook) {
	t.Helper()
	first, second := federationtest.Offer(1, ada, bob), federationtest.Offer(2, ada, bob)
	ruled := federation.Pending{Event: first, Home: elsewhere, Since: federationtest.At(1)}
	other := federation.Pending{Event: second, Home: elsewhere, Since: federationtest.At(2)}
	b.hold(t, ruled, other)
	filings := []federation.Filing{federationtest.File(first, federation.View{}), federationtest.File(second, federation.View{})}
	filings[0].Ruling = &federation.Ruling{Home: elsewhere, Handoff: first.ID, Event: first.ID, Version: 1, Document: "{}", Signature: "c2ln"}
	for _, f := range filings {
		if _, err := b.Append(t.Context(), f); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
	if d := diff([]federation.Pending{other}, b.waiting(t, 10)); d != "" {
		t.Errorf("Awaiting (-want +got):\n%s", d)
	}
}
