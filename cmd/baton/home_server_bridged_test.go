//go:build interop

package main_test

import (
	"fmt"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// side is a party on one of the networks that a gateway joins, and how it works there.
type side struct {
	did string
	// offer offers something to a DID and returns the handoff.
	offer func(t *testing.T, to string) string
	// step takes a step in a handoff of the other side.
	step func(t *testing.T, verb, handoff string)
	// sees waits for a step of the other's, after which the handoff is in a state.
	sees func(t *testing.T, verb, handoff string, state federation.State)
}

// crossroads is a gateway that joins its own IRC clients with other networks.
type crossroads struct {
	*homeServer
	eliza user // on the listener
}

// newCrossroads starts a gateway with tables for the others.
func newCrossroads(t *testing.T, tables func(h *house) []string) *crossroads {
	t.Helper()
	c := &crossroads{homeServer: &homeServer{house: newHouse(t), irc: federationtest.FreeAddr(t)}}
	c.configure(t, append(tables(c.house), fmt.Sprintf("[irc.client]\nlisten = %q\n", c.irc), unlimited)...)
	c.start(t)
	c.ready(t)
	c.eliza.person = newPerson(t)
	c.eliza.IRCClient = c.login(t, "eliza", c.eliza.person, agentCaps(dialects()...)...)
	join(t, c.eliza.IRCClient)
	return c
}

// onIRC is a user that signs steps in one dialect, and reads the steps of both.
func onIRC(u user, d dialect) side {
	seen := map[string]bridgetest.IRCMessage{} // last message written to it, by handoff
	return side{
		did: u.did,
		offer: func(t *testing.T, to string) string {
			t.Helper()
			offer := d.offer(u.person, channel, extras{"to": to, "title": title})
			send(t, u.IRCClient, offer.tags)
			return offer.handoff
		},
		step: func(t *testing.T, verb, handoff string) {
			t.Helper()
			target, venue := channel, channel
			if last := seen[handoff]; last.Command != "" && last.Params[0] != channel { // it was told privately
				target, venue = "Baton", privately(u.did, last.Tags[vendor+"handoff-from"])
			}
			if err := u.Send(d.step(u.person, venue, verb, handoff, nil).tags, "TAGMSG", target); err != nil {
				t.Fatal(err)
			}
		},
		sees: func(t *testing.T, verb, handoff string, _ federation.State) {
			t.Helper()
			seen[handoff] = next(t, u.IRCClient, verb+" of "+handoff, func(m bridgetest.IRCMessage) bool {
				return rfcTags.names(verb, handoff)(m) || actTags.names(verb, handoff)(m)
			})
		},
	}
}

// onFreeq is a user with the knowledge of its server.
func onFreeq(server *bridgetest.Freeq, u *bridgetest.FreeqUser) side {
	parse := func(t *testing.T, handoff string) federation.HandoffID {
		t.Helper()
		id, err := federation.ParseEventID(handoff)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	return side{
		did: string(u.DID),
		offer: func(t *testing.T, to string) string {
			t.Helper()
			id, err := u.Offer(channel, federation.DID(to), title)
			if err != nil {
				t.Fatal(err)
			}
			return id.String()
		},
		step: func(t *testing.T, verb, handoff string) {
			t.Helper()
			if _, err := u.Step(channel, parse(t, handoff), federation.Verb(verb), "by hand"); err != nil {
				t.Fatal(err)
			}
		},
		sees: func(t *testing.T, _, handoff string, state federation.State) {
			t.Helper()
			if err := server.AwaitState(patient(t), parse(t, handoff), state); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// onAIRC is an agent of the registry, towards another handle.
func onAIRC(agent *mailbox, other string) side {
	return side{
		did: agent.DID,
		offer: func(t *testing.T, _ string) string {
			t.Helper()
			got, _ := printError(t, agent, handleOf(other), payload("at.freeq:handoff", map[string]any{"handoff": map[string]any{"event": "offer", "title": title}}))
			if got.Handoff.ID == "" {
				t.Fatalf("the offer is answered %+v", got)
			}
			return got.Handoff.ID
		},
		step: func(t *testing.T, verb, handoff string) {
			t.Helper()
			if got, _ := printError(t, agent, handleOf(other), answerPayload(verb, handoff)); got.Handoff.ID != handoff {
				t.Fatalf("%s is answered %+v", verb, got)
			}
		},
		sees: func(t *testing.T, verb, handoff string, _ federation.State) {
			t.Helper()
			agent.next(t, verb, isAbout(verb, handoff))
		},
	}
}

func TestListenerClientWorksWithInspIRCdAndAIRC(t *testing.T) {
	t.Parallel()
	var lab *network
	c := newCrossroads(t, func(h *house) []string {
		lab = newNetwork(t, h, "lab", "1LA")
		return []string{lab.table}
	})
	bob, finn := user{newPerson(t), lab.join(t, "bob", "message-tags")}, (&world{house: c.house}).hire(t, "finn")
	here := onIRC(c.eliza, rfcTags)
	hello := here.offer(t, finn.DID)
	finn.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	consent(t, finn.Agent, handleOf(here.did))
	finn.next(t, "the first offer", isAbout("offer", hello))
	for name, there := range map[string]side{"InspIRCd": onIRC(bob, rfcTags), "AIRC": onAIRC(finn, here.did)} {
		t.Run("offered here, done on "+name, func(t *testing.T) { carriedThrough(t, here, there, there.did) })
		t.Run("offered on "+name+", done here", func(t *testing.T) { carriedThrough(t, there, here, here.did) })
	}
}

func TestListenerClientWorksWithFreeq(t *testing.T) {
	t.Parallel()
	var server *bridgetest.Freeq
	c := newCrossroads(t, func(h *house) []string {
		var table string
		server, table = newFreeq(t, h, "fq", channel)
		return []string{table}
	})
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	there := onFreeq(server, server.Join("alice", didOf(seeded("alice")), seeded("alice")))
	for _, d := range dialects() {
		here := onIRC(c.eliza, d)
		t.Run("offered here in "+string(d)+" tags", func(t *testing.T) { carriedThrough(t, here, there, there.did) })
		t.Run("offered there to anyone, done here in "+string(d)+" tags", func(t *testing.T) { carriedThrough(t, there, here, "") })
	}
	t.Run("offered there to a client here", func(t *testing.T) { carriedThrough(t, there, onIRC(c.eliza, actTags), c.eliza.did) })
}

// carriedThrough plays a handoff from its offer to its end, each step seen by the other. An
// open one is claimed.
func carriedThrough(t *testing.T, offerer, taker side, to string) {
	t.Helper()
	handoff := offerer.offer(t, to)
	taker.sees(t, "offer", handoff, federation.Offered)
	takes := "accept"
	if to == "" {
		takes = "claim"
	}
	for _, step := range []struct {
		verb  string
		state federation.State
	}{{takes, federation.Assigned}, {"progress", federation.Assigned}, {"complete", federation.Completed}} {
		taker.step(t, step.verb, handoff)
		offerer.sees(t, step.verb, handoff, step.state)
	}
}
