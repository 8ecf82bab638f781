//go:build interop

package main_test

import (
	"net/http"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// finn is logged in to a freeq server, and never took a step or wrote a message.
func TestNewcomerIsReachedByItsProvenDID(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	b.settled(t, b.finn)
	did := string(b.finn.DID)
	b.write(t, did, "are you there?", http.StatusCreated)
	b.finn.Tell(b.freeqReads(t, "are you there?")["from"].(string), "I am")
	b.httpReads(t, "I am")
	b.write(t, string(didOf(seeded("nobody"))), "are you there?", http.StatusNotFound)
}

// The handoff stays on the link of finn after finn has left. Its steps wait for finn's return.
func TestNewcomerGetsItsOfferOnReturn(t *testing.T) {
	t.Parallel()
	b := newTalkative(t)
	b.settled(t, b.finn)
	id := b.http.offer(t, map[string]any{"to": b.finn.DID, "title": "Paint the ship"})
	b.takes(t, id, "offer")
	b.finn.Quit()
	b.settled(t, b.freeq.Join("otto", didOf(seeded("otto")), seeded("otto")))
	b.http.step(t, id, "cancel", map[string]any{"note": "too late"})
	b.freeq.Join("finn", b.finn.DID, seeded("finn")) // the step waits for finn
	b.takes(t, id, "cancel")
}

// settled waits until the gateway has read all that the freeq server sent: it answers a user.
func (b *talkative) settled(t *testing.T, u *bridgetest.FreeqUser) {
	t.Helper()
	u.Tell("Baton-gw", "help")
	if _, err := b.freeq.AwaitLine(patient(t), "help", func(m map[string]any) bool { return m["type"] == "privmsg" && m["target"] == u.Nick }); err != nil {
		t.Fatal(err)
	}
}

// takes waits for a step of a private handoff that the freeq server takes for finn.
func (b *talkative) takes(t *testing.T, id string, verb federation.Verb) {
	t.Helper()
	_, err := b.freeq.AwaitLine(patient(t), string(verb), func(m map[string]any) bool {
		tags, _ := m["tags"].(map[string]any)
		return m["type"] == "tagmsg" && m["target"] == string(b.finn.DID) && tags["+freeq.at/act-verb"] == string(verb) &&
			(tags["+freeq.at/eventid"] == id || tags["+freeq.at/act-id"] == id)
	})
	if err != nil {
		t.Fatal(err)
	}
}
