package freeq_test

import (
	"errors"
	"strings"
	"testing"

	"baton/bridge/bridgetest"
	"baton/bridge/irc/freeq"
	"baton/federation"
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

func TestAPrivateStepHasALineThatSaysWhatToType(t *testing.T) {
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

func TestAPrivateLineForAnAbsentReaderGoesToItsDID(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	h.deliver(t, h.aPrivateOffer(t))
	line, err := h.server.AwaitLine(patient(t), "the line", isLine)
	if err != nil {
		t.Fatal(err)
	}
	if did, _ := person("alice"); line["target"] != string(did) {
		t.Errorf("line %v", line)
	}
	h.expectNothingOdd(t)
}

func TestAPrivateStepWithoutItsLineIsNotDelivered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	h.alice()
	h.server.LoseLines(true)
	err := h.link.Deliver(patient(t), h.aPrivateOffer(t))
	if _, waits := errors.AsType[*federation.UnavailableError](err); !waits {
		t.Errorf("Deliver returns %v, want a not-now", err)
	}
}

func TestAPrivateLineThatIsWrittenAgainGoesToTheDIDOfAReaderThatLeft(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	alice := h.present(t)
	h.server.LoseLines(true)
	delivered := make(chan error, 1)
	go func() { delivered <- h.link.Deliver(patient(t), h.aPrivateOffer(t)) }()
	for ctx := patient(t); h.server.Dropped() == 0; {
		if ctx.Err() != nil {
			t.Fatal("no line is lost")
		}
	}
	alice.Quit()
	h.server.LoseLines(false)
	if err := <-delivered; err != nil {
		t.Fatal(err)
	}
	line, err := h.server.AwaitLine(patient(t), "the line", isLine)
	if err != nil || line["target"] != string(alice.DID) {
		t.Errorf("line %v, %v", line, err)
	}
	h.expectNothingOdd(t)
}
