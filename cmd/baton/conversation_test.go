//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// A talker is a participant of one network, with how it reads and answers there.
type talker struct {
	network string
	address string // under which participants of other networks write to it first

	begins  func(t *testing.T, address, text string)      // writes to an address of another network
	reads   func(t *testing.T, text string) (from string) // waits for a text, and returns the address for an answer
	answers func(t *testing.T, from, text string)
}

// plainClient is a person with a plain client: no tags, no account.
func plainClient(network string, c *bridgetest.IRCClient, nick string) talker {
	writes := func(t *testing.T, to, text string) {
		t.Helper()
		if err := c.Send(nil, "PRIVMSG", to, text); err != nil {
			t.Fatal(err)
		}
	}
	return talker{
		network: network, address: nick + "@" + network,
		begins:  func(t *testing.T, address, text string) { t.Helper(); writes(t, "Baton", "say "+address+" "+text) },
		reads:   func(t *testing.T, text string) string { t.Helper(); return nickOf(clientReads(t, c, text)) },
		answers: writes,
	}
}

// freeqTalker is finn, as the server of finn tells the gateway of it.
func (b *talkative) freeqTalker() talker {
	return talker{
		network: "freeq", address: "finn@fq",
		begins: func(_ *testing.T, address, text string) { b.finn.Tell("Baton-gw", "say "+address+" "+text) },
		reads: func(t *testing.T, text string) string {
			t.Helper()
			from, _ := b.freeqReads(t, text)["from"].(string)
			return from
		},
		answers: func(_ *testing.T, from, text string) { b.finn.Tell(from, text) },
	}
}

// aircTalker is scout.
func (b *talkative) aircTalker() talker {
	writes := func(t *testing.T, to, text string) {
		t.Helper()
		if strings.HasPrefix(to, "did:") {
			to = handleOf(to)
		}
		b.send(t, to, text, http.StatusCreated)
	}
	return talker{
		network: "AIRC", address: b.scout.Handle, begins: writes, answers: writes,
		reads: func(t *testing.T, text string) string {
			t.Helper()
			from, _ := b.scoutReads(t, text)["from"].(string)
			return from
		},
	}
}

// restTalker is a caller of the agents' API.
func (b *talkative) restTalker() talker {
	writes := func(t *testing.T, to, text string) { t.Helper(); b.write(t, to, text, http.StatusCreated) }
	return talker{
		network: "REST", address: string(b.http.did), begins: writes, answers: writes,
		reads: func(t *testing.T, text string) string {
			t.Helper()
			from, _ := b.httpReads(t, text)["from"].(string)
			return from
		},
	}
}

// Two participants of any two networks talk, whichever of them begins: two InspIRCd servers, freeq,
// our own listener, AIRC and REST. Each text is answered, and the answer is answered.
func TestConversationBetweenEachPairOfNetworks(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	networks, tables := everyNetwork(t, h)
	b := talkativeIn(t, h, append(tables, "[limits]\n"+anyAddress)...)
	b.write(t, b.scout.Handle, "may I ask?", http.StatusCreated) // a caller is known once it has acted
	if status, answer, err := b.scout.Consent(t.Context(), b.asker(t, "may I ask?"), "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("consent: %d %v %v", status, answer, err)
	}
	talkers := []talker{ // the agents begin: they read no stranger without consent
		b.aircTalker(), b.restTalker(), b.freeqTalker(), plainClient("client", b.guest(t, "zoe"), "zoe"),
	}
	for _, n := range networks {
		nick := "guest-" + n.name
		talkers = append(talkers, plainClient(n.name, n.join(t, nick), nick))
	}
	for i, one := range talkers {
		for _, other := range talkers[i+1:] {
			t.Run(one.network+" and "+other.network, func(t *testing.T) {
				converse(t, one, other)
				converse(t, other, one)
			})
		}
	}
}

// converse has one participant begin, and each answer once.
func converse(t *testing.T, first, second talker) {
	t.Helper()
	says := func(what string) string { return fmt.Sprintf("%s from %s to %s", what, first.network, second.network) }
	first.begins(t, second.address, says("question"))
	second.answers(t, second.reads(t, says("question")), says("answer"))
	first.answers(t, first.reads(t, says("answer")), says("thanks"))
	second.reads(t, says("thanks"))
}
