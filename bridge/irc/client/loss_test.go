package client_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// A client that loses each second page with its connection reads every step, and no step counts
// as delivered before a page with it was answered.
func TestDeliverSurvivesLostPages(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	const offers = 500
	ids := map[string]federation.HandoffID{}
	for n := range offers {
		offer := federationtest.File(federationtest.Offer(n+1, bob, ada), federation.View{})
		if _, err := h.record.Append(t.Context(), offer); err != nil {
			t.Fatal(err)
		}
		ids[offer.Event.ID.String()] = offer.View.ID
	}
	read := map[string]bool{}
	for lost := 0; len(read) < offers; lost++ {
		if lost > offers {
			t.Fatalf("%d of %d steps were read", len(read), offers)
		}
		p := dial(t, h.addr)
		p.login(t)
		p.say(t, "PONG "+p.page(t, read))
		if len(read) < offers {
			p.page(t, map[string]bool{}) // lost
		} else {
			p.say(t, "PING end")
			p.until(t, "*PONG*end*") // the answer to the page was read
		}
		_ = p.conn.Close()
		for event, id := range ids {
			found, err := h.record.Deliveries(t.Context(), id, nil)
			if err != nil || len(found) != 1 {
				t.Fatalf("%s is delivered %+v, %v", id, found, err)
			}
			if found[0].State == federation.DeliveryDelivered && !read[event] {
				t.Errorf("%s counts as delivered and was not read", id)
			}
		}
	}
}

// page reads a page of an inbox, and returns the cookie of the question after it.
func (p *peer) page(tb testing.TB, read map[string]bool) (cookie string) {
	tb.Helper()
	for {
		line := p.hear(tb)
		if cookie, asked := strings.CutPrefix(line, "PING "); asked {
			return cookie
		}
		if _, tag, ok := strings.Cut(line, "+freeq.at/eventid="); ok {
			read[tag[:26]] = true
		}
	}
}
