package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func edgeOf(t *testing.T, record *registry.Record, from, to string) agents.Consent {
	t.Helper()
	c, err := record.Consent(t.Context(), from, to)
	if err != nil {
		t.Fatalf("Consent(%s, %s): %v", from, to, err)
	}
	return c
}

func hold(t *testing.T, record *registry.Record, n int, from, to string) agents.Message {
	t.Helper()
	handshake := federationtest.Message(n, "system", to)
	handshake.ID = fmt.Sprintf("handshake-%d", n)
	return post(t, record, agents.Posting{Message: federationtest.Message(n, from, to), Held: true, Handshake: &handshake})
}

func ids(t *testing.T, record *registry.Record, to string) []string {
	t.Helper()
	var all []string
	for _, m := range inboxOf(t, record, to) {
		all = append(all, fmt.Sprintf("%s #%d", m.ID, m.Seq))
	}
	return all
}

func (s suite) testHeld(t *testing.T) {
	record := s.open(t)
	if d := diff(agents.Consent{From: "a", To: "b", State: agents.ConsentNone}, edgeOf(t, record, "a", "b")); d != "" {
		t.Errorf("an edge that never changed (-want +got):\n%s", d)
	}
	for n := 1; n <= 3; n++ {
		if m := hold(t, record, n, "a", "b"); m.Seq != 0 {
			t.Errorf("held message %d has seq %d", n, m.Seq)
		}
	}
	hold(t, record, 4, "c", "b")
	want := agents.Consent{From: "a", To: "b", State: agents.ConsentPending, Updated: federationtest.At(1), Version: 1}
	if d := diff(want, edgeOf(t, record, "a", "b")); d != "" {
		t.Errorf("edge (-want +got):\n%s", d)
	}
	if c := edgeOf(t, record, "b", "a"); c.State != agents.ConsentNone {
		t.Errorf("the way back is %s, want none", c.State)
	}
	if d := diff([]string{"handshake-1 #1", "handshake-4 #2"}, ids(t, record, "b")); d != "" {
		t.Errorf("inbox (-want +got):\n%s", d)
	}
	if _, err := record.Post(t.Context(), agents.Posting{Message: federationtest.Message(1, "a", "b"), Held: true}); !errors.Is(err, agents.ErrDuplicate) {
		t.Errorf("Post of the id of a held message: %v, want ErrDuplicate", err)
	}
}

func (s suite) testEdges(t *testing.T) {
	record := s.open(t)
	for n, from := range []string{"d", "b", "c", "a"} {
		hold(t, record, n+1, from, "z")
	}
	hold(t, record, 5, "a", "y")
	if _, err := record.Block(t.Context(), "b", "z", federationtest.At(9)); err != nil {
		t.Fatal(err)
	}
	for _, decide := range []func() (agents.Consent, error){
		func() (agents.Consent, error) { return record.Block(t.Context(), "c", "z", federationtest.At(9)) },
		func() (agents.Consent, error) { return record.Unblock(t.Context(), "c", "z", federationtest.At(9)) },
		func() (agents.Consent, error) {
			return record.AcceptOneWay(t.Context(), "d", "z", federationtest.At(9))
		},
	} {
		if _, err := decide(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		after string
		limit int
		want  string
	}{{"", 10, "[a pending b blocked d accepted]"}, {"", 2, "[a pending b blocked]"}, {"b", 2, "[d accepted]"}, {"", 0, "[]"}} {
		edges, err := record.Edges(t.Context(), "z", tt.after, tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, edge := range edges {
			got = append(got, edge.From, string(edge.State))
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%d edges after %q: %v, want %s", tt.limit, tt.after, got, tt.want)
		}
	}
}

func (s suite) testAccept(t *testing.T) {
	record := s.open(t)
	hold(t, record, 1, "a", "b")
	hold(t, record, 2, "c", "b")
	hold(t, record, 3, "a", "b")
	hold(t, record, 4, "b", "a")
	accepted, err := record.Accept(t.Context(), "a", "b", federationtest.At(9))
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	want := agents.Consent{From: "a", To: "b", State: agents.ConsentAccepted, Updated: federationtest.At(9), Version: 2}
	if d := diff(want, accepted) + diff(want, edgeOf(t, record, "a", "b")); d != "" {
		t.Errorf("edge (-want +got):\n%s", d)
	}
	if c := edgeOf(t, record, "b", "a"); c.State != agents.ConsentAccepted {
		t.Errorf("the way back is %s, want accepted", c.State)
	}
	inbox := []string{"handshake-1 #1", "handshake-2 #2", "message-1 #1", "message-3 #2"}
	back := []string{"handshake-4 #1", "message-4 #3"}
	if d := diff(inbox, ids(t, record, "b")) + diff(back, ids(t, record, "a")); d != "" {
		t.Errorf("inboxes (-want +got):\n%s", d)
	}

	again, err := record.Accept(t.Context(), "a", "b", federationtest.At(10))
	if err != nil {
		t.Fatalf("Accept again: %v", err)
	}
	if d := diff(want, again) + diff(inbox, ids(t, record, "b")); d != "" {
		t.Errorf("after accepting again (-want +got):\n%s", d)
	}
	late := hold(t, record, 11, "a", "b")
	if late.Seq != 4 {
		t.Errorf("a message that was to be held when the edge was accepted has seq %d, want 4", late.Seq)
	}
	if d := diff(append(inbox, "message-11 #4"), ids(t, record, "b")); d != "" {
		t.Errorf("inbox (-want +got):\n%s", d)
	}
}

func (s suite) testBlock(t *testing.T) {
	record := s.open(t)
	hold(t, record, 1, "a", "b")
	hold(t, record, 2, "c", "b")
	want := agents.Consent{From: "a", To: "b", State: agents.ConsentBlocked, Updated: federationtest.At(9), Version: 2}
	for _, now := range []int{9, 10} {
		blocked, err := record.Block(t.Context(), "a", "b", federationtest.At(now))
		if err != nil {
			t.Fatalf("Block: %v", err)
		}
		if d := diff(want, blocked); d != "" {
			t.Errorf("edge (-want +got):\n%s", d)
		}
	}
	if _, err := record.Named(t.Context(), "a", "message-1"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Named of a discarded message: %v, want ErrNotFound", err)
	}
	if c := edgeOf(t, record, "c", "b"); c.State != agents.ConsentPending {
		t.Errorf("another edge is %s, want pending", c.State)
	}
	if m := hold(t, record, 11, "a", "b"); m.Seq != 0 || edgeOf(t, record, "a", "b").State != agents.ConsentBlocked {
		t.Errorf("a message that was to be held when the edge was blocked has seq %d", m.Seq)
	}
	if d := diff([]string{"handshake-1 #1", "handshake-2 #2"}, ids(t, record, "b")); d != "" {
		t.Errorf("inbox (-want +got):\n%s", d)
	}
}

func (s suite) testDecisions(t *testing.T) {
	record := s.open(t)
	decide := func(decision, from, to string, now int) agents.Consent {
		t.Helper()
		apply := record.Accept
		if decision == "block" {
			apply = record.Block
		}
		c, err := apply(t.Context(), from, to, federationtest.At(now))
		if err != nil {
			t.Fatalf("%s %s to %s: %v", decision, from, to, err)
		}
		return c
	}
	decide("block", "a", "b", 1)
	if c := decide("accept", "a", "b", 2); c.State != agents.ConsentAccepted || c.Version != 2 {
		t.Errorf("accepting after a block leaves %+v", c)
	}
	if c := decide("block", "a", "b", 3); c.State != agents.ConsentBlocked || c.Version != 3 {
		t.Errorf("blocking after an accept leaves %+v", c)
	}
	decide("accept", "b", "a", 4)
	if c := edgeOf(t, record, "a", "b"); c.State != agents.ConsentBlocked {
		t.Errorf("an accept on the way back leaves a blocked edge %s", c.State)
	}
}

func (s suite) testOneWay(t *testing.T) {
	record := s.open(t)
	hold(t, record, 1, "a", "b")
	hold(t, record, 2, "b", "a")
	if c, err := record.AcceptOneWay(t.Context(), "a", "b", federationtest.At(3)); err != nil || c.State != agents.ConsentAccepted {
		t.Errorf("AcceptOneWay: %+v, %v", c, err)
	}
	if c := edgeOf(t, record, "b", "a"); c.State != agents.ConsentPending {
		t.Errorf("the way back is %s, want pending", c.State)
	}
	if d := diff([]string{"handshake-1 #1", "message-1 #1"}, ids(t, record, "b")); d != "" {
		t.Errorf("inbox (-want +got):\n%s", d)
	}
}

func attach(t *testing.T, record *registry.Record, n int, edge, from, to string) agents.Message {
	t.Helper()
	return post(t, record, agents.Posting{Message: federationtest.Message(n, from, to), Held: true, Edge: edge})
}

func (s suite) testAttached(t *testing.T) {
	record := s.open(t)
	hold(t, record, 1, "a", "b")
	for n, edge := range map[int]string{2: "a", 3: "c"} {
		if m := attach(t, record, n, edge, "system", "b"); m.Seq != 0 {
			t.Errorf("message %d on a pending edge has seq %d", n, m.Seq)
		}
	}
	hold(t, record, 4, "a", "b")
	for handle, want := range map[string]agents.ConsentState{
		"a": agents.ConsentPending, "c": agents.ConsentNone, "system": agents.ConsentNone,
	} {
		if c := edgeOf(t, record, handle, "b"); c.State != want {
			t.Errorf("the edge of %s is %s, want %s", handle, c.State, want)
		}
	}
	if _, err := record.Accept(t.Context(), "system", "b", federationtest.At(8)); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if d := diff([]string{"handshake-1 #1"}, ids(t, record, "b")); d != "" {
		t.Errorf("inbox after consent to another edge (-want +got):\n%s", d)
	}
	if _, err := record.Accept(t.Context(), "a", "b", federationtest.At(9)); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	inbox := []string{"handshake-1 #1", "message-1 #1", "message-2 #2", "message-4 #2"}
	if d := diff(inbox, ids(t, record, "b")); d != "" {
		t.Errorf("inbox after consent (-want +got):\n%s", d)
	}
	if m := attach(t, record, 5, "a", "system", "b"); m.Seq != 3 {
		t.Errorf("a message on an accepted edge has seq %d, want 3", m.Seq)
	}
	if _, err := record.Block(t.Context(), "c", "b", federationtest.At(10)); err != nil {
		t.Fatalf("Block: %v", err)
	}
	if _, err := record.Named(t.Context(), "system", "message-3"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Named of what went with an offer that is not there: %v, want ErrNotFound", err)
	}
	if d := diff(append(inbox, "message-5 #3"), ids(t, record, "b")); d != "" {
		t.Errorf("inbox after a block (-want +got):\n%s", d)
	}
}
