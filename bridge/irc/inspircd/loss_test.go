package inspircd_test

import (
	"sync"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// A connection to InspIRCd loses its end: no message in its middle. PONG proves all before it.
func TestDeliverSurvivesConnectionsThatLoseTheirEnd(t *testing.T) {
	const offers, taken, lanes = 500, 9, 64 // one in ten is lost at least
	h, peer := linked(t, nil)
	peer.Lose(taken)
	rows := make(chan federation.Delivery, offers)
	for n := range offers {
		d := acceptRow(t)
		d.Entry.Event.ID, d.Entry.Event.Handoff = federationtest.ID(2*n), federationtest.ID(2*n+1)
		d.View.ID = d.Entry.Event.Handoff
		rows <- d
	}
	close(rows)
	ctx := waiting(t)
	var running sync.WaitGroup
	for range lanes { // as an outbox has
		running.Go(func() {
			for d := range rows {
				for h.link.Deliver(ctx, d) != nil {
					if ctx.Err() != nil {
						t.Errorf("%s is not delivered", d.Entry.Event.ID)
						return
					}
					<-time.After(10 * time.Millisecond) // the link dials
				}
				if !arrived(peer, d.Entry.Event.ID) {
					t.Errorf("%s counts as delivered and did not arrive", d.Entry.Event.ID)
				}
			}
		})
	}
	running.Wait()
	if lost := peer.Lost(); lost < offers/10 {
		t.Errorf("%d steps were lost, want more", lost)
	}
}

// arrived reports whether a step came.
func arrived(peer *bridgetest.IRCd, step federation.EventID) bool {
	for _, m := range peer.Received() {
		if m.Command == "TAGMSG" && m.Tags["msgid"] == step.String() {
			return true
		}
	}
	return false
}
