package freeq_test

import (
	"fmt"
	"testing"

	"baton/federation"
)

// pageRows is how many rows a server sends at once.
const pageRows = 500

func TestALogIsReadToItsEndPageByPage(t *testing.T) {
	h := newHouse(t)
	alice := h.alice()
	want := map[federation.EventID]bool{}
	for n := range 3*pageRows + 1 {
		id, err := alice.Offer(channel, "", fmt.Sprintf("offer %d", n))
		if err != nil {
			t.Fatal(err)
		}
		want[id] = true
	}
	h.server.Spread(pageRows - 10) // so many in a second
	h.run(t)
	for len(want) > 0 {
		delete(want, h.gateway.next(t).ID)
	}
	h.expectNothingOdd(t)
}

func TestAPageOfOneSecondDoesNotHoldUpTheRest(t *testing.T) {
	h := newHouse(t)
	alice := h.alice()
	var last federation.EventID
	for n := range 2*pageRows + 1 {
		id, err := alice.Offer(channel, "", fmt.Sprintf("offer %d", n))
		if err != nil {
			t.Fatal(err)
		}
		last = id
	}
	h.server.Spread(2 * pageRows) // the first thousand in one second, of which a page shows half
	h.run(t)
	for h.gateway.next(t).ID != last {
	}
	h.expectNothingOdd(t)
}
