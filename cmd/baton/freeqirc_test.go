//go:build interop

package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// bridged is a gateway between an InspIRCd network and a freeq server.
type bridged struct {
	*house
	net    *network
	bob    *bridgetest.IRCClient
	key    person // of bob
	server *bridgetest.Freeq
	alice  *bridgetest.FreeqUser
	there  string // the server's name of the channel
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

func TestFreeqRaceLoserIsNotifiedOnInspIRCd(t *testing.T) {
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

// eachWay runs a test for both dialects of the network, and for a channel with one
// name on both networks and one with two.
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

func TestFreeqDoesAnOfferOfInspIRCd(t *testing.T) {
	t.Parallel()
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

func TestFreeqOfferIsDoneOnInspIRCd(t *testing.T) {
	t.Parallel()
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

func TestFreeqShowsTheExpiryOfAnOffer(t *testing.T) {
	t.Parallel()
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

// met lets both people be seen, each on their own network.
func (b *bridged) met(t *testing.T, d dialect) {
	t.Helper()
	id, err := b.alice.Offer(b.there, "", "hello")
	if err != nil {
		t.Fatal(err)
	}
	actTags.await(t, b.bob, "offer", id.String())
	hello := d.offer(b.key, channel, extras{"to": string(b.alice.DID), "title": "hello"})
	send(t, b.bob, hello.tags)
	answered, err := federation.ParseEventID(hello.handoff)
	if err != nil {
		t.Fatal(err)
	}
	b.stands(t, answered, federation.Offered)
}

// A server believes no other server about the recipient of an offer: bob signs in the tags
// of the offer.
func TestFreeqPrivateOfferIsDoneOnInspIRCd(t *testing.T) {
	t.Parallel()
	b := newBridged(t, channel)
	b.met(t, actTags)
	bob := federation.DID(b.key.did)
	id, err := b.alice.Offer(string(bob), bob, title)
	if err != nil {
		t.Fatal(err)
	}
	actTags.await(t, b.bob, "offer", id.String())
	venue := federation.PrivateVenue(b.alice.DID, bob)
	for _, step := range []struct {
		verb  string
		state federation.State
	}{{"accept", federation.Assigned}, {"progress", federation.Assigned}, {"complete", federation.Completed}} {
		b.whisper(t, actTags.step(b.key, venue, step.verb, id.String(), nil).tags)
		b.stands(t, id, step.state)
	}
}

func TestFreeqDoesAPrivateOfferOfInspIRCd(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(string(d)+" tags", func(t *testing.T) {
			t.Parallel()
			b := newBridged(t, channel)
			b.met(t, d)
			bob := federation.DID(b.key.did)
			offer := d.offer(b.key, federation.PrivateVenue(b.alice.DID, bob), extras{"to": string(b.alice.DID), "title": title})
			b.whisper(t, offer.tags)
			id, err := federation.ParseEventID(offer.handoff)
			if err != nil {
				t.Fatal(err)
			}
			b.stands(t, id, federation.Offered)
			for _, step := range []struct {
				verb  federation.Verb
				state federation.State
			}{{federation.Accept, federation.Assigned}, {federation.Complete, federation.Completed}} {
				if _, err := b.alice.Step(b.server.Venue(id, b.alice.DID), id, step.verb, "by hand"); err != nil {
					t.Fatal(err)
				}
				d.await(t, b.bob, string(step.verb), offer.handoff)
				b.stands(t, id, step.state)
			}
		})
	}
}

// whisper makes bob send a step only to the gateway.
func (b *bridged) whisper(t *testing.T, tags map[string]string) {
	t.Helper()
	if err := b.bob.Send(tags, "TAGMSG", "Baton"); err != nil {
		t.Fatal(err)
	}
}

// A server sends every private message to all its peers.
func TestFreeqPrivateOfferToOthersIsNotKept(t *testing.T) {
	t.Parallel()
	b := newBridged(t, channel)
	carol := didOf(seeded("carol"))
	secret, err := b.alice.Offer(string(carol), carol, "between us")
	if err != nil {
		t.Fatal(err)
	}
	id, err := b.alice.Offer(channel, "", "for all")
	if err != nil {
		t.Fatal(err)
	}
	actTags.await(t, b.bob, "offer", id.String())
	if out, err := b.command(t, "handoff", "show", secret.String()).Output(); err == nil {
		t.Errorf("it is on record: %s", out)
	}
}

// A server takes the answer to a directed offer only from the DID of the offer. The step in
// other tags, which the gateway would write again under its own key, is refused before any
// user of the server sees it.
func TestFreeqIgnoredAnswerIsRefused(t *testing.T) {
	t.Parallel()
	b := newBridged(t, channel)
	b.met(t, rfcTags)
	id, err := b.alice.Offer(channel, federation.DID(b.key.did), title)
	if err != nil {
		t.Fatal(err)
	}
	actTags.await(t, b.bob, "offer", id.String())
	send(t, b.bob, rfcTags.step(b.key, channel, "accept", id.String(), nil).tags)
	next(t, b.bob, "the refusal", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Nick == "Baton" && len(m.Params) > 1 && strings.HasPrefix(m.Params[1], "NEED_SIGNATURE ")
	})
	send(t, b.bob, actTags.step(b.key, channel, "accept", id.String(), nil).tags)
	b.stands(t, id, federation.Assigned)
	if shown := b.server.Shown(id.String()); len(shown) != 2 {
		t.Errorf("users of the server are shown %v", shown)
	}
}
