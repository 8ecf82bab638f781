package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// file files a step of a handoff, whose recipients find it in their inboxes.
func (h *house) file(t *testing.T, ev federation.Event, before federation.View) federation.Filing {
	t.Helper()
	f := federationtest.File(ev, before)
	if _, err := h.record.Append(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	h.gateway.mu.Lock()
	defer h.gateway.mu.Unlock()
	h.gateway.views[f.View.ID] = f.View
	return f
}

// privateOffer returns an offer in private.
func privateOffer(n int, from, to federation.DID) federation.Event {
	ev := federationtest.Offer(n, from, to)
	ev.Venue = federation.PrivateVenue(from, to)
	return ev
}

// awaitDelivered waits until the one delivery of a handoff has been made.
func (h *house) awaitDelivered(t *testing.T, id federation.HandoffID) {
	t.Helper()
	for begun := time.Now(); deliveryTo(t, h, id) != federation.DeliveryDelivered; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("after the client answered, the offer is %s", deliveryTo(t, h, id))
		}
	}
}

func TestPlainClientSeesPrivateStepsAsLines(t *testing.T) {
	t.Parallel()
	for name, caps := range map[string]string{"without tags": "echo-message", "with tags of other kinds": "message-tags server-time"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, testConfig())
			offer := h.file(t, privateOffer(1, bob, ada), federation.View{})
			p := dial(t, h.addr)
			p.plainLogin(t, caps)
			short := offer.View.ID.Short()
			p.until(t, "*NOTICE ada :(handoff …"+short+") * offers *: "+offer.Event.Title+" * — answer: |msg Baton accept "+short+" or |msg Baton decline "+short)
			ping := p.until(t, "*PING :handoff-*")
			if got := deliveryTo(t, h, offer.View.ID); got != federation.DeliveryWaiting {
				t.Errorf("before the client answered, the offer is %s", got)
			}
			p.say(t, "PONG "+ping[strings.Index(ping, ":handoff"):])
			h.awaitDelivered(t, offer.View.ID)
		})
	}
}

func TestPlainOffererSeesAnswers(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	offer := h.file(t, privateOffer(1, ada, bob), federation.View{})
	accept := federationtest.Step(2, offer.Event, federation.Accept, bob)
	accept.Venue = offer.Event.Venue
	h.file(t, accept, offer.View)
	p := dial(t, h.addr)
	p.plainLogin(t, "")
	line := p.until(t, "*NOTICE ada :(handoff …"+offer.View.ID.Short()+") * accepts: "+offer.Event.Title)
	if strings.Contains(line, "/msg") {
		t.Errorf("an answer wants one: %q", line)
	}
}

// inChannel returns an offer to ada in a channel, as it is filed.
func inChannel(h *house) federation.Filing {
	ev := federationtest.Offer(1, bob, ada)
	ev.Venue = "#ops"
	f := federationtest.File(ev, federation.View{})
	f.View.Venue, f.View.Link = "#ops", ""
	h.gateway.views[f.View.ID] = f.View
	return f
}

// deliver writes a step to its channel.
func (h *house) deliver(t *testing.T, f federation.Filing) {
	t.Helper()
	if err := h.link.Deliver(t.Context(), federation.Delivery{Entry: federation.Entry{Event: f.Event, Version: 1}, View: f.View}); err != nil {
		t.Fatal(err)
	}
}

func TestPlainClientSeesAChannelStepOnce(t *testing.T) {
	t.Parallel()
	t.Run("which is in its inbox later", func(t *testing.T) {
		t.Parallel()
		h := start(t, testConfig())
		f := inChannel(h)
		p := dial(t, h.addr)
		p.plainLogin(t, "")
		p.say(t, "JOIN #ops")
		p.until(t, "* 366 *")
		h.deliver(t, f)
		p.until(t, "*NOTICE #ops :(handoff*")
		if _, err := h.record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		p.say(t, "CAP REQ :message-tags") // its replay begins anew
		for line := p.hear(t); !strings.Contains(line, "PING :handoff-"); line = p.hear(t) {
			if strings.Contains(line, "NOTICE") {
				t.Errorf("told twice: %q", line)
			}
		}
	})
	t.Run("which is in its inbox already", func(t *testing.T) {
		t.Parallel()
		h := start(t, testConfig())
		f := inChannel(h)
		if _, err := h.record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		p := dial(t, h.addr)
		p.plainLogin(t, "")
		p.until(t, "*NOTICE ada :(handoff*|msg Baton accept*")
		p.say(t, "JOIN #ops")
		p.until(t, "* 366 *")
		h.deliver(t, f)
		p.say(t, "PING done")
		for line := p.hear(t); !strings.Contains(line, "PONG"); line = p.hear(t) {
			if strings.Contains(line, "NOTICE") {
				t.Errorf("told twice: %q", line)
			}
		}
	})
}

// plainLogin logs a client in as ada that reads no steps.
func (p *peer) plainLogin(t *testing.T, caps string) {
	t.Helper()
	p.say(t, "CAP REQ :"+caps, "AUTHENTICATE ATPROTO-CHALLENGE")
	p.until(t, "*AUTHENTICATE *")
	p.say(t, answerTo(string(ada), "signed by "+string(ada)))
	p.until(t, "* 903 *")
	p.say(t, "NICK ada", "USER ada 0 * :ada", "CAP END")
	p.until(t, "* 376 *")
}

// deliveryTo returns the state of the delivery of a handoff's only step to an inbox.
func deliveryTo(t *testing.T, h *house, id federation.HandoffID) federation.DeliveryState {
	t.Helper()
	found, err := h.record.Deliveries(t.Context(), id, nil)
	if err != nil || len(found) != 1 {
		t.Fatalf("deliveries %+v: %v", found, err)
	}
	return found[0].State
}
