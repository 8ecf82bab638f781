package freeq_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
)

// deliverAll delivers as many offers as given side by side, as an outbox does, each until it
// is delivered, with the waits of an outbox. It fails for an offer that counts as delivered and is
// not on file.
func (h *house) deliverAll(t *testing.T, n int) {
	t.Helper()
	offers := make(chan federation.Delivery, n)
	for range n {
		offers <- h.offered(t, channel)
	}
	close(offers)
	var running sync.WaitGroup
	const lanes = 64 // as an outbox has
	retry := delivery.ToLink().Retry
	for range lanes {
		running.Go(func() {
			for d := range offers {
				ctx := patient(t) // for each, since the server limits the rate of all
				for h.link.Deliver(ctx, d) != nil {
					d.Attempt++
					if ctx.Err() != nil {
						t.Errorf("%s is not delivered", d.View.ID)
						return
					}
					time.Sleep(retry.After(d.Attempt, 0))
				}
				if !h.server.Filed(d.View.ID.String()) {
					t.Errorf("%s counts as delivered and is not on file", d.View.ID)
				}
			}
		})
	}
	running.Wait()
	h.expectNothingOdd(t)
}

func TestDeliverSurvivesDroppedEvents(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	h.server.Lose(10)
	h.deliverAll(t, 500)
	if h.server.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
}

// A server counts the messages processed in one second: those read during a stall come at once.
func TestDeliverStopsAtAStalledServer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	h.server.Stall(1500 * time.Millisecond)
	h.deliverAll(t, 150)
	if n := h.server.Dropped(); n != 0 {
		t.Errorf("%d messages came too fast", n)
	}
}

func TestDeliverNeedsTheServersProof(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	h.server.Lose(1)
	err := h.link.Deliver(patient(t), h.offered(t, channel))
	if _, waits := errors.AsType[*federation.UnavailableError](err); !waits {
		t.Errorf("Deliver returns %v, want a not-now", err)
	}
}

// The answer to the look at the log may come after the connection broke.
func TestDeliverWritesNoFiledStepTwice(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	d.Attempt++
	h.deliver(t, d)
	if n := h.written("offer"); n != 1 {
		t.Errorf("it is written %d times, want once", n)
	}
}

// written returns how often steps of a verb were written to the server.
func (h *house) written(verb string) (n int) {
	for _, m := range h.server.Said() {
		if isStep(verb)(m) {
			n++
		}
	}
	return n
}

func TestDeliverRefusesAStepWithATakenID(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	d.Entry.Event.Signature.Text += "A"
	err := h.link.Deliver(patient(t), d)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.EventIDInUse {
		t.Errorf("Deliver returns %v, want a refusal", err)
	}
}

// An idle link writes at most one line a minute into the log of the server's operator.
func TestIdleLinkAsksRarely(t *testing.T) {
	if freeq.ProbeEvery < time.Minute {
		t.Errorf("an idle link asks every %s", freeq.ProbeEvery)
	}
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	asked := func() (n int) {
		for _, m := range h.server.Said() {
			if m["type"] == "catchup_request" {
				n++
			}
		}
		return n
	}
	if before := asked(); before > 4 { // the catch-up, and the looks for the offer and its line
		t.Errorf("%d questions about one offer", before)
	}
}
