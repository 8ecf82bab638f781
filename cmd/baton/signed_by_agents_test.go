//go:build interop

package main_test

import (
	"net/http"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// selfSigned returns a payload that carries a step which the agent signed itself.
func selfSigned(s signed, d dialect, p person, verb string) map[string]any {
	return payload("at.freeq:handoff", map[string]any{
		"description": title, "handoff": map[string]any{"id": s.handoff, "event": verb, "proof": s.proof(d, p)},
	})
}

func TestSignedStepOfAnAgentTravelsUnchanged(t *testing.T) {
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, d)
			own := tw.finn.own()
			alice := handleOf(tw.key.did)
			t.Run("an answer in the channel", func(t *testing.T) {
				offer := d.offer(tw.key, channel, extras{"to": own.did, "title": title})
				send(t, tw.alice, offer.tags)
				tw.finn.next(t, "the offer", isAbout("offer", offer.handoff))
				for _, verb := range []string{"accept", "complete"} {
					step := d.step(own, channel, verb, offer.handoff, extras{"note": "by hand"})
					got, _ := printError(t, tw.finn, alice, selfSigned(step, d, own, verb))
					if got.Status != http.StatusCreated || got.Handoff.EventID != step.event {
						t.Fatalf("%s is answered %+v", verb, got)
					}
					for _, client := range []*bridgetest.IRCClient{tw.alice, tw.carol} {
						seenAsSigned(t, client, d, verb, step)
					}
				}
			})
			t.Run("an answer to an offer to its other DID", func(t *testing.T) {
				offer := d.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
				send(t, tw.alice, offer.tags)
				tw.finn.next(t, "the offer", isAbout("offer", offer.handoff))
				step := d.step(own, channel, "accept", offer.handoff, nil)
				if got, _ := printError(t, tw.finn, alice, selfSigned(step, d, own, "accept")); got.Status != http.StatusCreated || got.Handoff.State != "assigned" {
					t.Fatalf("the accept is answered %+v", got)
				}
				seenAsSigned(t, tw.carol, d, "accept", step)
			})
			t.Run("an offer to somebody who is there", func(t *testing.T) {
				offer := d.offer(own, privately(own.did, tw.key.did), extras{"to": tw.key.did, "title": title})
				got, _ := printError(t, tw.finn, alice, selfSigned(offer, d, own, "offer"))
				if got.Status != http.StatusCreated || got.Handoff.ID != offer.handoff {
					t.Fatalf("the offer is answered %+v", got)
				}
				seenAsSigned(t, tw.alice, d, "offer", offer)
				tw.byPerson(t, d, user{tw.key, tw.alice}, place{"Baton", privately(own.did, tw.key.did)}, offer.handoff, "accept", "assigned")
			})
		})
	}
}

func TestPrivateOfferOfPeople(t *testing.T) {
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, d)
			for _, target := range []string{"finn", "Baton"} {
				t.Run("to "+target, func(t *testing.T) { tw.offerPrivately(t, d, target) })
			}
			t.Run("to anyone", func(t *testing.T) {
				offer := d.offer(tw.key, privately(tw.key.did, homeDID), extras{"title": title, "caps": skill})
				if err := tw.alice.Send(offer.tags, "TAGMSG", "Baton"); err != nil {
					t.Fatal(err)
				}
				if read := about(tw.finn.next(t, "the offer", isAbout("offer", offer.handoff))); read.Venue != privately(tw.key.did, homeDID) || read.To != "" || read.State != "open" {
					t.Errorf("the agent reads %+v", read)
				}
			})
			tw.settle(t)
			for _, m := range tw.carol.Received() {
				if m.Command == "TAGMSG" {
					t.Errorf("others see %v", m.Tags)
				}
			}
		})
	}
}

// offerPrivately plays a handoff that only its parties see.
func (tw *twin) offerPrivately(t *testing.T, d dialect, target string) {
	t.Helper()
	venue := privately(tw.key.did, tw.finn.DID)
	offer := d.offer(tw.key, venue, extras{"to": tw.finn.DID, "title": title})
	if target != "Baton" {
		tw.appear(t, d)
	}
	if err := tw.alice.Send(offer.tags, "TAGMSG", target); err != nil {
		t.Fatal(err)
	}
	if read := about(tw.finn.next(t, "the offer", isAbout("offer", offer.handoff))); read.Venue != venue || read.Provenance != "signed" {
		t.Errorf("the agent reads %+v", read)
	}
	got, _ := printError(t, tw.finn, handleOf(tw.key.did), answerPayload("complete", offer.handoff))
	if got.Status != http.StatusCreated || got.Handoff.State != "completed" {
		t.Fatalf("complete is answered %+v", got)
	}
	for _, verb := range []string{"accept", "complete"} { // the first is implied
		m := d.await(t, tw.alice, verb, offer.handoff)
		if from := checkVouched(t, d, m, venue); from != tw.finn.DID || m.Nick != "finn" || m.Params[0] != "alice" {
			t.Errorf("%s by %s, from %s to %s", verb, m.Nick, from, m.Params[0])
		}
	}
}

// appear makes the agent join the network: its nick comes with its first step.
func (tw *twin) appear(t *testing.T, d dialect) {
	t.Helper()
	offer := d.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
	send(t, tw.alice, offer.tags)
	tw.finn.next(t, "an offer", isAbout("offer", offer.handoff))
	seenAsSigned(t, tw.carol, d, "offer", offer)
	tw.byAgent(t, d, offer.handoff, "decline", "declined")
}
