//go:build interop

package main_test

import (
	"strings"
	"testing"
	"time"

	"baton/bridge/bridgetest"
	"baton/federation"
)

// bridged is a gateway between an InspIRCd network and a freeq server.
type bridged struct {
	*house
	net    *network
	bob    *bridgetest.IRCClient
	key    person // of bob
	server *bridgetest.Freeq
	alice  *bridgetest.FreeqUser
	there  string // what the server calls the channel
}

// newBridged starts all of it. The server may call the channel otherwise.
func newBridged(t *testing.T, there string) *bridged {
	t.Helper()
	h := newHouse(t)
	b := &bridged{house: h, net: newNetwork(t, h, "lab", "1LA"), key: newPerson(t), there: there}
	entry := channel
	if there != channel {
		entry = channel + " as " + there
	}
	server, table := newFreeq(t, h, "fq", entry)
	b.server = server
	h.configure(t, b.net.table, table)
	h.start(t)
	h.ready(t)
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	b.alice = server.Join("alice", didOf(seeded("alice")), seeded("alice"))
	b.bob = b.net.join(t, "bob", "message-tags")
	return b
}

// stands waits until the server says that a handoff is in a state.
func (b *bridged) stands(t *testing.T, id federation.HandoffID, state federation.State) {
	t.Helper()
	if err := b.server.AwaitState(patient(t), id, state); err != nil {
		t.Fatal(err)
	}
}

func TestWhoLosesARaceOnFreeqIsToldOnInspIRCd(t *testing.T) {
	t.Parallel()
	b := newBridged(t, channel)
	id, err := b.alice.Offer(channel, "", title)
	if err != nil {
		t.Fatal(err)
	}
	actTags.await(t, b.bob, "offer", id.String())
	b.server.Mute(federation.Claim, true) // which is how it is when both claim at once
	b.server.Mute(federation.Confirm, true)
	if _, err := b.alice.Step(channel, id, federation.Claim, ""); err != nil {
		t.Fatal(err)
	}
	send(t, b.bob, actTags.step(b.key, channel, "claim", id.String(), nil).tags)
	next(t, b.bob, "the refusal", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Nick == "Baton" && len(m.Params) > 1 && strings.HasPrefix(m.Params[1], "ILLEGAL_STEP ")
	})
}

// eachWay runs a test for both dialects of the network, and for a channel that has one
// name on both networks and one that has two.
func eachWay(t *testing.T, run func(t *testing.T, d dialect, b *bridged)) {
	t.Helper()
	for name, there := range map[string]string{"the same channel": channel, "another channel": "#agents"} {
		for _, d := range dialects() {
			t.Run(string(d)+" tags, "+name, func(t *testing.T) {
				t.Parallel()
				run(t, d, newBridged(t, there))
			})
		}
	}
}

func TestAnOfferOnInspIRCdIsDoneOnFreeq(t *testing.T) {
	eachWay(t, func(t *testing.T, d dialect, b *bridged) {
		t.Helper()
		offer := d.offer(b.key, channel, extras{"to": string(b.alice.DID), "title": title})
		send(t, b.bob, offer.tags)
		id, err := federation.ParseEventID(offer.handoff)
		if err != nil {
			t.Fatal(err)
		}
		b.stands(t, id, federation.Offered)
		for _, step := range []struct {
			verb  federation.Verb
			state federation.State
		}{{federation.Accept, federation.Assigned}, {federation.Progress, federation.Assigned}, {federation.Complete, federation.Completed}} {
			if _, err := b.alice.Step(b.there, id, step.verb, "by hand"); err != nil {
				t.Fatal(err)
			}
			d.await(t, b.bob, string(step.verb), offer.handoff)
			b.stands(t, id, step.state)
		}
	})
}

func TestAnOfferOnFreeqIsDoneOnInspIRCd(t *testing.T) {
	eachWay(t, func(t *testing.T, d dialect, b *bridged) {
		t.Helper()
		id, err := b.alice.Offer(b.there, "", title)
		if err != nil {
			t.Fatal(err)
		}
		actTags.await(t, b.bob, "offer", id.String())
		for _, step := range []struct {
			verb  string
			state federation.State
		}{{"claim", federation.Assigned}, {"progress", federation.Assigned}, {"complete", federation.Completed}} {
			send(t, b.bob, d.step(b.key, channel, step.verb, id.String(), nil).tags)
			b.stands(t, id, step.state)
		}
	})
}

func TestAnOfferThatExpiresHereExpiresOnFreeq(t *testing.T) {
	eachWay(t, func(t *testing.T, d dialect, b *bridged) {
		t.Helper()
		offer := d.offer(b.key, channel, extras{"to": string(b.alice.DID), "title": title, "deadline": due(past(2 * time.Second))})
		send(t, b.bob, offer.tags)
		id, err := federation.ParseEventID(offer.handoff)
		if err != nil {
			t.Fatal(err)
		}
		b.stands(t, id, federation.Expired)
	})
}
