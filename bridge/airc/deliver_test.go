package airc_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

func TestDeliverFollowsConsent(t *testing.T) {
	t.Parallel()
	from := wire.Handle(alice.DID)
	const knock = "system system:handshake_request"
	for name, test := range map[string]struct {
		offers string
		before []string // the agent's actions about the offerer after a first offer
		want   []string
	}{
		"nothing: it is held":                              {airc.OffersHold, nil, []string{knock}},
		"accept: both are there, in order":                 {airc.OffersHold, []string{"accept"}, []string{knock, from + " task:request", from + " task:request"}},
		"block: neither is, and nobody is told":            {airc.OffersHold, []string{"block"}, []string{knock}},
		"nothing, where offers are delivered: both are":    {airc.OffersDeliver, nil, []string{from + " task:request", from + " task:request"}},
		"block, where offers are delivered: the second no": {airc.OffersDeliver, []string{"block"}, []string{from + " task:request"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = test.offers })
			scout := w.agent(t, "scout_7", 0x01)
			w.offer(t, alice, scout.DID)
			for _, action := range test.before {
				if status, answer, err := scout.Consent(t.Context(), from, action); err != nil || status != http.StatusOK {
					t.Fatal(status, answer, err)
				}
			}
			w.offer(t, alice, scout.DID)
			if diff := cmp.Diff(test.want, types(inbox(t, scout))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConsentIsGivenByWritingUnlessBlocked(t *testing.T) {
	t.Parallel()
	from := wire.Handle(alice.DID)
	for name, test := range map[string]struct {
		block bool
		want  []string
	}{
		"what was held is delivered":     {false, []string{"system system:handshake_request", from + " task:request"}},
		"what was blocked stays blocked": {true, []string{"system system:handshake_request"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scout := w.agent(t, "scout_7", 0x01)
			id := w.offer(t, alice, scout.DID)
			if test.block {
				if _, _, err := scout.Consent(t.Context(), from, "block"); err != nil {
					t.Fatal(err)
				}
			}
			for _, to := range []string{from, wire.Alias(alice.DID, "alice")} { // the alias goes in as well
				p := result(id.String(), "partial")
				if to == from {
					p = ack(id.String(), "received")
				}
				if status, answer, err := scout.Send(t.Context(), to, "", p); err != nil || status != http.StatusCreated {
					t.Fatal(status, answer, err)
				}
			}
			if diff := cmp.Diff(test.want, types(inbox(t, scout))); diff != "" {
				t.Error(diff)
			}
			if got := w.verbs(t, id); got != "offer accept progress" {
				t.Errorf("filed %q", got)
			}
		})
	}
}

func TestDeliverWritesCancelAndNativeTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	native := w.agent(t, "native", 0x04, func(a *bridgetest.Agent) {
		a.Capabilities = map[string]any{"payloads": []string{"at.freeq:handoff"}}
	})
	from := wire.Handle(alice.DID)
	for _, a := range []*bridgetest.Agent{scout, native} {
		id := w.offer(t, alice, a.DID)
		w.fromIRC(t, alice, federation.Event{Handoff: id, Verb: federation.Cancel}, map[string]string{})
	}
	if diff := cmp.Diff([]string{from + " task:request", from + " at.freeq:handoff"}, types(inbox(t, scout))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{from + " at.freeq:handoff", from + " at.freeq:handoff"}, types(inbox(t, native))); diff != "" {
		t.Error(diff)
	}
}

func TestDeliverLogsLosses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	inexact := `{"n":9007199254740993}` // which canonical JSON would change
	w.fromIRC(t, alice, federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, To: federation.DID(scout.DID), Title: "Count", Context: inexact,
	}, map[string]string{"handoff-to": scout.DID, "handoff-task": "Count", "handoff-context": inexact})
	offer := inbox(t, scout)[0].Payload.Data
	handoff, _ := offer["handoff"].(map[string]any)
	if ref, _ := handoff["context_ref"].(string); offer["context"] != nil || ref == "" || w.stored(t, ref, handoff["context_h"].(string)) != inexact {
		t.Errorf("the message says %v", offer)
	}
	w.contexts.Limits = func() (int64, int64) { return 1, 0 }
	w.fromIRC(t, alice, federation.Event{Handoff: id, Verb: federation.Cancel, Context: inexact}, map[string]string{"handoff-context": inexact})
	if w.lines("message carries a step in part") != 1 {
		t.Error(w.log)
	}
}

func TestDeliverIsIdempotent(t *testing.T) {
	t.Parallel()
	for _, offers := range []string{airc.OffersHold, airc.OffersDeliver} {
		w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = offers })
		scout := w.agent(t, "scout_7", 0x01)
		id := w.offer(t, alice, scout.DID)
		before := inbox(t, scout)
		view, err := w.record.View(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		d := federation.Delivery{Entry: federation.Entry{Event: w.steps(t, id)[0], Version: 1, State: federation.Offered}, View: view}
		if err := w.link.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, inbox(t, scout)); diff != "" {
			t.Error(offers, diff)
		}
	}
}

func TestDeliverSkipsReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	id := w.offer(t, alice, scout.DID)
	view, err := w.record.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	receipt := federation.Event{Verb: federation.Confirm, Handoff: id, From: "did:web:gw.example"}
	if err := w.link.Deliver(t.Context(), federation.Delivery{Entry: federation.Entry{Event: receipt}, View: view}); err != nil {
		t.Error(err)
	}
	if got := inbox(t, scout); len(got) != 1 {
		t.Errorf("the agent reads %v", types(got))
	}
}

func TestDeliverReturnsErrorsOfTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agent := agents.Agent{Handle: "scout_7", DID: kept("scout_7").DID, OwnDID: signingKey(1).DID}
	if err := w.record.AddAgent(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	d := federation.Delivery{
		Entry: federation.Entry{Event: federation.Event{Verb: federation.Offer, From: alice.DID}, Version: 1},
		View:  federation.View{Version: 1, Offerer: alice.DID, Offeree: agent.DID},
	}
	if err := w.record.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*federation.UnavailableError](w.link.Deliver(t.Context(), d)); !ok {
		t.Error("a delivery that was not filed was not asked for again")
	}
}

func TestDeliverReachesListeners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(t, "scout_7", 0x01)
	bob := signingKey(0x44).DID
	scout, own := kept("scout_7").DID, signingKey(0x01).DID
	for name, test := range map[string]struct {
		ev   federation.Event
		view federation.View
		want bool
	}{
		"an offer to an agent":                {federation.Event{From: alice.DID}, federation.View{Offerer: alice.DID, Offeree: scout}, true},
		"an offer to the agent's own DID":     {federation.Event{From: alice.DID}, federation.View{Offerer: alice.DID, Offeree: own}, true},
		"an answer to an agent's offer":       {federation.Event{From: bob}, federation.View{Offerer: own, Offeree: bob}, true},
		"an offer between others":             {federation.Event{From: alice.DID}, federation.View{Offerer: alice.DID, Offeree: bob}, false},
		"an agent's own step":                 {federation.Event{From: scout}, federation.View{Offerer: alice.DID, Offeree: scout}, false},
		"an agent's step under its other DID": {federation.Event{From: scout}, federation.View{Offerer: alice.DID, Offeree: own}, false},
		"a step that came in here": {
			federation.Event{From: scout, Arrival: federation.Arrival{Link: "airc"}}, federation.View{Offerer: own, Offeree: scout}, false,
		},
	} {
		test.ev.Verb, test.ev.Title = federation.Offer, "Review it"
		got, _, err := w.link.Effects(t.Context(), federation.Delivery{Entry: federation.Entry{Event: test.ev}, View: test.view})
		if err != nil || len(got) > 0 != test.want {
			t.Errorf("%s: %v %v, want %v", name, got, err, test.want)
		}
	}
}

func TestRunIsUpUntilStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	err := w.link.Run(ctx, stop) // up, and stopped by that
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	if w.link.Name() != "airc" || w.link.Network() != "airc" {
		t.Errorf("the link is %s of %s", w.link.Name(), w.link.Network())
	}
}

func TestOpenNamesEveryMistake(t *testing.T) {
	t.Parallel()
	_, err := airc.Open(airc.Config{Domain: "GW", Offers: "maybe", OIDC: airc.OIDCConfig{Issuer: "login.example"}}, airc.Deps{})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatal(err)
	}
	var keys []string
	for _, each := range joined.Unwrap() {
		mistake, ok := errors.AsType[*bridge.KeyError](each)
		if !ok {
			t.Fatal(each)
		}
		keys = append(keys, mistake.Key)
	}
	if want := []string{"domain", "name", "offers", "reregister", "header_registration", "max_payload_bytes", "federation", "oidc.issuer", "oidc.audience"}; !slices.Equal(keys, want) {
		t.Errorf("mistakes in %v, want %v", keys, want)
	}
	if _, err := airc.Open(airc.DefaultConfig(), airc.Deps{}); err != nil {
		t.Error("the default configuration:", err)
	}
}
