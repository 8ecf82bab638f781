package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func heldRelays(t *testing.T, record *registry.Record, from, to string) (all []string, numbers []int64) {
	t.Helper()
	found, err := record.HeldRelays(t.Context(), from, to, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range found {
		all, numbers = append(all, h.Message.ID+" to "+h.To), append(numbers, h.ID)
	}
	return all, numbers
}

func (s suite) testHeldRelays(t *testing.T) {
	const amy, ben, person = "?amy_1@a.test", "?ben_1@a.test", "plc_ewvi7nxzyoun6zhxrhs64oiz"
	record := s.open(t)
	hold(t, record, 1, "amy_1@a.test", "z") // not of an unverified sender
	for n, edge := range []struct{ from, to string }{{amy, "z"}, {amy, "z"}, {ben, "z"}, {amy, person}, {ben, person}} {
		hold(t, record, n+2, edge.from, edge.to)
	}
	id := func(n int) string { return federationtest.Message(n, amy, "z").ID }
	want := []string{id(2) + " to z", id(3) + " to z", id(4) + " to z", id(5) + " to " + person, id(6) + " to " + person}
	all, numbers := heldRelays(t, record, "", "")
	if d := diff(want, all); d != "" {
		t.Fatalf("held (-want +got):\n%s", d)
	}
	if page, err := record.HeldRelays(t.Context(), "", "", numbers[1], 2); err != nil || len(page) != 2 || page[0].ID != numbers[2] || page[1].ID != numbers[3] {
		t.Errorf("the page after the second: %v, %v", page, err)
	}
	for _, test := range []struct {
		from, to string
		want     []string
	}{{amy, "", []string{want[0], want[1], want[3]}}, {"", person, want[3:]}, {amy, person, want[3:4]}} {
		if got, _ := heldRelays(t, record, test.from, test.to); diff(test.want, got) != "" {
			t.Errorf("held from %q to %q: %v", test.from, test.to, got)
		}
	}

	// One is delivered: the others of its edge stay held, and so does the edge.
	if m, err := record.HeldRelay(t.Context(), numbers[0]); err != nil || m.ID != id(2) {
		t.Errorf("held relay: %+v, %v", m, err)
	}
	if err := record.DeliverHeld(t.Context(), numbers[0], federationtest.At(20)); err != nil {
		t.Fatal(err)
	}
	if got, edge := ids(t, record, "z"), edgeOf(t, record, amy, "z"); got[len(got)-1] != id(2)+" #1" || edge.State != agents.ConsentPending {
		t.Errorf("after the delivery of one: inbox %v, edge %+v", got, edge)
	}
	// When the last one is dropped, the request is withdrawn.
	for n, from := range []string{amy, ben} {
		if err := record.DropHeld(t.Context(), numbers[n+1], federationtest.At(21)); err != nil {
			t.Fatal(err)
		}
		if edge := edgeOf(t, record, from, "z"); edge.State != agents.ConsentNone {
			t.Errorf("after the drop of the last one: %+v", edge)
		}
	}
	for name, err := range map[string]error{
		"deliver":       record.DeliverHeld(t.Context(), numbers[0], federationtest.At(22)),
		"drop":          record.DropHeld(t.Context(), numbers[1], federationtest.At(22)),
		"drop verified": record.DropHeld(t.Context(), numbers[0]-1, federationtest.At(22)),
	} {
		if !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("%s again: %v, want ErrNotFound", name, err)
		}
	}

	// Consent to a participant of another network opens the edge, and delivers nothing by itself.
	if edge := decide(t, record, "accept", amy, person, federationtest.At(23)); edge.State != agents.ConsentAccepted {
		t.Errorf("accepted: %+v", edge)
	}
	if got, _ := heldRelays(t, record, "", ""); diff(want[3:], got) != "" {
		t.Errorf("held after the consent: %v", got)
	}
	for n, want := range []int{0, 2, 0} {
		if gone, err := record.ExpireHeld(t.Context(), federationtest.At(4+n*5), federationtest.At(24), 10); err != nil || gone != want {
			t.Errorf("expired at or before %v: %d, %v, want %d", federationtest.At(4+n*5), gone, err, want)
		}
	}
	if got, _ := heldRelays(t, record, "", ""); len(got) > 0 {
		t.Errorf("held at the end: %v", got)
	}
	if edge := edgeOf(t, record, ben, person); edge.State != agents.ConsentNone {
		t.Errorf("the edge of an expired relay: %+v", edge)
	}
}
