//go:build interop

package main_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// ofBounty returns a signed step of a bounty, the offer if it names none.
func (d dialect) ofBounty(by person, verb, handoff string, more extras) signed {
	said := extras{"kind": "bounty"}
	maps.Copy(said, more)
	return d.at(time.Now(), by, channel, verb, handoff, said)
}

// A bounty of alice is bid for on both networks, and goes to the agent.
func TestBountyCrossesInEachDialect(t *testing.T) {
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, d.other())
			dave := user{newPerson(t), tw.net.join(t, "dave", "message-tags")}
			offer := d.ofBounty(tw.key, "offer", "", extras{"title": title, "caps": skill, "price": "10 EUR"})
			send(t, tw.alice, offer.tags)
			seenAsSigned(t, tw.carol, d, "offer", offer)
			if read := tw.finn.next(t, "the offer", isAbout("offer", offer.handoff)); read.Payload.Type != "at.freeq:handoff" || about(read).State != "open" {
				t.Errorf("the agent reads %s: %s", read.Payload.Type, read.Payload.Data)
			}

			lost := d.ofBounty(dave.person, "bid", offer.handoff, extras{"bid": "12 EUR"})
			send(t, dave.IRCClient, lost.tags)
			seenAsSigned(t, tw.carol, d, "bid", lost)
			won := tw.takes(t, d, "bid", offer.handoff, "open")
			award := d.ofBounty(tw.key, "award", offer.handoff, extras{"accepts": won})
			send(t, tw.alice, award.tags)
			seenAsSigned(t, tw.carol, d, "award", award)
			if m := tw.finn.next(t, "the award", isAbout("award", offer.handoff)); about(m).Assignee != tw.finn.DID {
				t.Errorf("the award says %s", m.Payload.Data)
			}
			tw.takes(t, d, "progress", offer.handoff, "assigned")
			tw.takes(t, d, "submit", offer.handoff, "under_review")

			late := d.ofBounty(dave.person, "forfeit", offer.handoff, nil)
			send(t, dave.IRCClient, late.tags)
			tw.refused(t, dave.IRCClient, "WRONG_SENDER", late.event)
			done := d.ofBounty(tw.key, "accept-work", offer.handoff, nil)
			send(t, tw.alice, done.tags)
			seenAsSigned(t, tw.carol, d, "accept-work", done)
			if m := tw.finn.next(t, "the end", isAbout("accept-work", offer.handoff)); about(m).State != "accepted" {
				t.Errorf("the end says %s", m.Payload.Data)
			}
		})
	}
}

// takes lets the agent take a step, and returns its event id once it was seen on IRC.
func (tw *twin) takes(t *testing.T, d dialect, verb, handoff, state string) string {
	t.Helper()
	got, _ := printError(t, tw.finn, handleOf(tw.key.did), answerNamed(verb, handoff))
	if got.Status != http.StatusCreated || got.Handoff.State != state {
		t.Fatalf("%s is answered %+v", verb, got)
	}
	for _, client := range []*bridgetest.IRCClient{tw.alice, tw.carol} {
		m := next(t, client, verb+" of the agent", func(m bridgetest.IRCMessage) bool {
			return d.names(verb, handoff)(m) && m.Tags[vendor+"eventid"] == got.Handoff.EventID
		})
		if from := checkVouched(t, d, m, channel); from != tw.finn.DID {
			t.Errorf("%s sees a %s from %s", client.Nick, verb, from)
		}
	}
	return got.Handoff.EventID
}

func TestReofferNamesTheRevivedHandoff(t *testing.T) {
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, d)
			first := d.offer(tw.key, channel, extras{"title": title})
			send(t, tw.alice, first.tags)
			seenAsSigned(t, tw.carol, d, "offer", first)
			again := d.offer(tw.key, channel, extras{"title": title, "replaces": first.handoff})
			send(t, tw.alice, again.tags)
			tw.refused(t, tw.alice, "REPLACES_NOT_TERMINAL", again.event)
			send(t, tw.alice, d.step(tw.key, channel, "cancel", first.handoff, nil).tags)
			d.await(t, tw.carol, "cancel", first.handoff)
			again = d.offer(tw.key, channel, extras{"title": title, "replaces": first.handoff})
			send(t, tw.alice, again.tags)
			seenAsSigned(t, tw.carol, d, "offer", again)
		})
	}
}
