//go:build interop && long && linux

package inspircd_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// Steps that go through a link in each direction, at a thousand a second.
const (
	loadSteps  = 5000
	loadPace   = 1000 // a second
	loadAtOnce = 16
)

func TestLinkCarriesFiveThousandStepsInOrder(t *testing.T) {
	eachInspIRCd(t, func(t *testing.T, server func(*setup)) {
		t.Helper()
		r := startReal(t, server)
		sender := r.client(t, "sender", "message-tags")
		pace := rate.NewLimiter(loadPace, loadPace/20)
		begun := time.Now()
		var writing errgroup.Group
		writing.Go(func() error { // beside the reader: the peer drops a link that reads nothing for ten seconds
			for i := range loadSteps {
				if err := pace.Wait(t.Context()); err != nil {
					return err
				}
				tags := maps.Clone(offerTags())
				tags["+freeq.at/handoff-x-n"] = fmt.Sprint(i)
				if err := sender.Send(tags, "TAGMSG", "#ops"); err != nil {
					return err
				}
			}
			return nil
		})
		for i := range loadSteps {
			if ev := r.gateway.next(t); ev.Fields["handoff-x-n"] != fmt.Sprint(i) {
				t.Fatalf("step %s is number %d", ev.Fields["handoff-x-n"], i)
			}
		}
		if err := writing.Wait(); err != nil {
			t.Fatal(err)
		}
		inbound := time.Since(begun)

		begun = time.Now()
		var sending errgroup.Group
		sending.SetLimit(loadAtOnce)
		for i := range loadSteps {
			sending.Go(func() error {
				d := acceptRow(t)
				d.Attempt = 1
				d.Entry.Event.Fields["handoff-x-n"] = fmt.Sprint(i)
				return r.link.Deliver(waiting(t), d)
			})
		}
		if err := sending.Wait(); err != nil {
			t.Fatal(err)
		}
		outbound := time.Since(begun)
		seen := map[string]bool{}
		for range loadSteps {
			seen[await(t, r.tagged, "TAGMSG", from("scholar")).Tags["+freeq.at/handoff-x-n"]] = true
		}
		t.Logf("%d steps in after %v, %d out after %v", loadSteps, inbound, loadSteps, outbound)
		if len(seen) != loadSteps {
			t.Errorf("%d steps are seen, want %d", len(seen), loadSteps)
		}
	})
}

// TestLinkCarriesABurstThroughInspIRCd has services bring 500 users into 50 channels before the
// gateway links.
func TestLinkCarriesABurstThroughInspIRCd(t *testing.T) {
	eachInspIRCd(t, func(t *testing.T, server func(*setup)) {
		t.Helper()
		const users, channels = 500, 50
		r := openReal(t, server, func(s *setup) {
			s.ircd.Services = "services.example"
			for i := range channels - 1 {
				s.cfg.Channels = append(s.cfg.Channels, fmt.Sprintf("#c%d", i))
			}
		})
		services, err := bridgetest.LinkServices(waiting(t), r.ircd.LinkAddr, "services.example", "in-secret")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(services.Close)
		if err := services.Introduce(users, r.link.Channels()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		up := make(chan struct{}, 10)
		t.Cleanup(keepRunning(r.house, func() { up <- struct{}{} }))
		select {
		case <-up:
		case <-waiting(t).Done():
			t.Fatalf("the link did not come up:\n%s", r.log)
		}
		t.Logf("linked after %v", time.Since(begun))
		tagged := r.client(t, "alice", "message-tags")
		if err := services.Say(users-1, offerTags(), "#c0"); err != nil {
			t.Fatal(err)
		}
		if ev := r.gateway.next(t); ev.Arrival.Name != fmt.Sprintf("user%d", users-1) || ev.Venue != "#c0" {
			t.Errorf("arrival %+v", ev.Arrival)
		}
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, tagged, "TAGMSG", from("scholar"))
	})
}
