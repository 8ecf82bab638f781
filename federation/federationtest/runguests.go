package federationtest

import (
	"errors"
	"testing"

	"baton/federation"
)

// elsewhere is a home that is not the record's own.
const elsewhere = federation.HomeID("irc.example")

// held returns the n-th step of somebody, which waits for another home.
func pending(n int, by federation.DID, offer federation.Event) federation.Pending {
	return federation.Pending{Event: Step(n, offer, federation.Accept, by), Home: elsewhere, Since: At(n)}
}

// RunGuests holds a record to what [federation.Guests] promises.
func RunGuests(t *testing.T, open func(t *testing.T) federation.Record) {
	t.Helper()
	hold := func(t *testing.T, record federation.Record, all ...federation.Pending) {
		t.Helper()
		for _, h := range all {
			if err := record.Await(t.Context(), h, 0); err != nil {
				t.Fatalf("Await(%s): %v", h.Event.ID, err)
			}
		}
	}
	waiting := func(t *testing.T, record federation.Record, home federation.HomeID, limit int) []federation.Pending {
		t.Helper()
		steps, err := record.Awaiting(t.Context(), home, limit)
		if err != nil {
			t.Fatalf("Awaiting(%s): %v", home, err)
		}
		return steps
	}
	first, second := Offer(1, ada, bob), Offer(2, ada, bob)

	t.Run("what waits comes back as it was, oldest first, by home and by handoff", func(t *testing.T) {
		record := open(t)
		a, b, c := pending(3, bob, first), pending(4, bob, second), pending(5, cleo, first)
		b.Home = "other.example"
		hold(t, record, a, b, c)
		if d := diff([]federation.Pending{a, c}, waiting(t, record, elsewhere, 10)); d != "" {
			t.Errorf("Awaiting (-want +got):\n%s", d)
		}
		in, err := record.AwaitingIn(t.Context(), first.ID)
		if d := diff([]federation.Pending{a, c}, in); d != "" || err != nil {
			t.Errorf("AwaitingIn (%v, -want +got):\n%s", err, d)
		}
		for _, limit := range []int{-1, 0, 1} {
			if got := waiting(t, record, elsewhere, limit); len(got) != max(limit, 0) {
				t.Errorf("Awaiting of %d returns %d", limit, len(got))
			}
		}
	})
	t.Run("the same step waits once", func(t *testing.T) {
		record := open(t)
		a := pending(3, bob, first)
		again := a
		again.Since = At(9)
		hold(t, record, a, again)
		if d := diff([]federation.Pending{a}, waiting(t, record, elsewhere, 10)); d != "" {
			t.Errorf("Awaiting (-want +got):\n%s", d)
		}
	})
	t.Run("the same evidence under another id is the same step", func(t *testing.T) {
		record := open(t)
		a := pending(3, bob, first)
		a.Event.Provenance, a.Event.Evidence = federation.Vouched, &federation.Evidence{
			URL: "https://gw.example/evidence/1", Digest: [32]byte{1}, Bytes: []byte("original"), Source: [32]byte{2},
		}
		again := a
		again.Event.ID = ID(9)
		hold(t, record, a, again)
		if steps := waiting(t, record, elsewhere, 10); len(steps) != 1 || steps[0].Event.ID != a.Event.ID {
			t.Errorf("%d wait, want the first alone", len(steps))
		}
		if original, err := record.Evidence(t.Context(), [32]byte{1}); err != nil || string(original) != "original" {
			t.Errorf("Evidence = %q, %v", original, err)
		}
	})
	t.Run("a step waits in no handoff that has moved since it was judged", func(t *testing.T) {
		record := open(t)
		opened := File(first, federation.View{})
		if _, err := record.Append(t.Context(), opened); err != nil {
			t.Fatal(err)
		}
		late, timely := pending(3, bob, first), pending(4, bob, first)
		for _, after := range []federation.Version{0, 2} {
			if err := record.Await(t.Context(), late, after); !errors.Is(err, federation.ErrStale) {
				t.Errorf("Await after version %d: %v, want ErrStale", after, err)
			}
		}
		if err := record.Await(t.Context(), timely, 1); err != nil {
			t.Errorf("Await after version 1: %v", err)
		}
		if d := diff([]federation.Pending{timely}, waiting(t, record, elsewhere, 10)); d != "" {
			t.Errorf("Awaiting (-want +got):\n%s", d)
		}
	})
	t.Run("what is released waits no more, and may be released again", func(t *testing.T) {
		record := open(t)
		a, c := pending(3, bob, first), pending(5, cleo, first)
		hold(t, record, a, c)
		for range 2 {
			if err := record.Ruled(t.Context(), first.ID, bob, a.Event.ID); err != nil {
				t.Errorf("Ruled: %v", err)
			}
		}
		if d := diff([]federation.Pending{c}, waiting(t, record, elsewhere, 10)); d != "" {
			t.Errorf("Awaiting (-want +got):\n%s", d)
		}
	})
}
