package freeq_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// aPrivateOffer returns an offer that scout made to alice in private.
func (h *house) aPrivateOffer(t *testing.T) federation.Delivery {
	t.Helper()
	scout, _ := person("scout")
	alice, _ := person("alice")
	return h.offered(t, federation.PrivateVenue(scout, alice))
}

// isLine reports whether a message is a line for people.
func isLine(m map[string]any) bool { return m["type"] == "privmsg" }

// present returns alice once the link knows her.
func (h *house) present(t *testing.T) *bridgetest.FreeqUser {
	t.Helper()
	alice := h.alice()
	for ctx := patient(t); !h.link.Online(ctx, federation.Binding{DID: alice.DID}); {
		if ctx.Err() != nil {
			t.Fatal("alice is not known")
		}
	}
	return alice
}

func TestPrivateStepHasALineWithItsCommand(t *testing.T) {
	for name, tweak := range map[string]func(*freeq.Config, *freeq.Deps){
		"as configured": func(*freeq.Config, *freeq.Deps) {}, "without lines in channels": func(cfg *freeq.Config, _ *freeq.Deps) { cfg.Summaries = false },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, tweak)
			h.run(t)
			alice := h.present(t)
			d := h.aPrivateOffer(t)
			h.deliver(t, d)
			line, err := h.server.AwaitLine(patient(t), "the line", isLine)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := line["text"].(string)
			short := d.View.ID.Short()
			if !strings.HasPrefix(text, "[handoff …"+short+"] ") || !strings.HasSuffix(text, ": Review it — answer: /msg Baton-gw accept "+short+" or /msg Baton-gw decline "+short) {
				t.Errorf("line %q", text)
			}
			scout, _ := person("scout")
			tags, _ := line["tags"].(map[string]any)
			if line["target"] != alice.Nick || line["account"] != string(scout) || tags["+freeq.at/ref"] != d.View.ID.String() {
				t.Errorf("line %v", line)
			}
			h.expectNothingOdd(t)
		})
	}
}

func TestPrivateStepWaitsForItsReader(t *testing.T) {
	for name, row := range map[string]func(h *house) federation.Delivery{
		"an offer": func(h *house) federation.Delivery { return h.aPrivateOffer(t) },
		"text":     func(h *house) federation.Delivery { return h.words(t, "alice") },
	} {
		t.Run(name, func(t *testing.T) {
			said := &messages{back: make(chan federation.DID, 10)}
			h := newHouse(t, func(_ *freeq.Config, d *freeq.Deps) { d.Messages = said })
			h.run(t)
			said.awaits(t, "")
			d := row(h)
			err := h.attempt(t, d)
			if _, waits := errors.AsType[*federation.UnavailableError](err); !waits {
				t.Fatalf("Deliver returns %v while alice is away, want a not-now", err)
			}
			alice := h.present(t)
			said.awaits(t, alice.DID)
			h.deliver(t, d)
			if lines := alice.Read(); len(lines) != 1 {
				t.Errorf("alice reads %+v, want one line", lines)
			}
			if d.Entry.Event.Verb == federation.Offer && len(h.server.Shown(d.View.ID.String())) != 1 {
				t.Error("alice is not shown the step")
			}
			h.expectNothingOdd(t)
		})
	}
}

// A server rules on its own handoffs even if their parties are away.
func TestPrivateStepOfTheServersHandoffDoesNotWait(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	alice := h.present(t)
	scout, _ := person("scout")
	id, err := alice.Offer(string(scout), scout, "Review it")
	if err != nil {
		t.Fatal(err)
	}
	offer := h.gateway.next(t)
	v := federation.View{
		ID: id, Kind: federation.Handoff, Dialect: federation.ActTags, Version: 2, State: federation.Assigned, Home: theirs, Remote: true,
		Venue: offer.Venue, Link: linkName, Offerer: alice.DID, Offeree: scout, Assignee: scout,
	}
	h.gateway.know(v)
	alice.Quit()
	h.gone(t, alice.DID)
	h.deliver(t, h.step(t, federation.Delivery{View: v}, "scout", federation.Accept, federation.Assigned))
}

// A private step counts as delivered when it is on file. Its line is best effort.
func TestPrivateStepWithoutItsLineIsDelivered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	h.present(t)
	h.server.LoseLines(true)
	h.deliver(t, h.aPrivateOffer(t))
}

func TestPrivateLineIsRepeatedToTheDIDOfADepartedReader(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	alice := h.present(t)
	h.server.LoseLines(true)
	h.deliver(t, h.aPrivateOffer(t))
	if err := h.server.AwaitDropped(patient(t)); err != nil {
		t.Fatal(err)
	}
	alice.Quit()
	h.server.LoseLines(false)
	line, err := h.server.AwaitLine(patient(t), "the line", isLine)
	if err != nil || line["target"] != string(alice.DID) {
		t.Errorf("line %v, %v", line, err)
	}
	h.expectNothingOdd(t)
}
