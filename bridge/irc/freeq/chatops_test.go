package freeq_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// withChatOps makes a house whose operator bound alice to a DID of her own, and vouches for her if
// asked to.
func withChatOps(t *testing.T, vouch bool) *house {
	t.Helper()
	h := newHouse(t, func(_ *freeq.Config, d *freeq.Deps) {
		did, _ := person("alice")
		d.Bindings = bridgetest.Bindings{Names: []federation.BoundName{{Network: linkName, Name: string(did), DID: did, Vouch: vouch}}}
	})
	h.run(t)
	return h
}

// hears awaits a private line to a user, and returns it.
func (h *house) hears(t *testing.T, nick, words string) string {
	t.Helper()
	line, err := h.server.AwaitLine(patient(t), words, func(m map[string]any) bool {
		text, _ := m["text"].(string)
		return m["type"] == "privmsg" && m["target"] == nick && m["from"] == "Baton-gw" && strings.Contains(text, words)
	})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := line["text"].(string)
	return text
}

// A server takes no step from the gateway if it lacks the previous step.
func TestChatOpsShowsItsStepAsALine(t *testing.T) {
	h := withChatOps(t, true)
	alice, scout := h.present(t), h.aPrivateOffer(t)
	scout.View.Partial = []string{linkName}
	h.deliver(t, h.step(t, scout, "scout", federation.Cancel, federation.Cancelled))
	line, err := h.server.AwaitLine(patient(t), "the line", isLine)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := line["text"].(string); line["target"] != alice.Nick || !strings.Contains(text, "cancels: Review it") {
		t.Errorf("line %v", line)
	}
	for _, m := range h.server.Said() {
		if m["type"] == "tagmsg" {
			t.Errorf("the gateway says %v", m)
		}
	}
	h.expectNothingOdd(t)
}

func TestChatOpsShowsCommandsToOtherUsers(t *testing.T) {
	for _, private := range []bool{true, false} {
		h := withChatOps(t, true)
		alice := h.present(t)
		d := h.offered(t, channel)
		if private {
			d = h.aPrivateOffer(t)
		}
		d.Entry.Event.Arrival.Link, d.Entry.Event.Arrival.ViaCommand, d.View.Partial = linkName, true, []string{linkName}
		h.deliver(t, d)
		line, err := h.server.AwaitLine(patient(t), "the line", isLine)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := line["text"].(string)
		want := channel
		if private {
			want = alice.Nick
		}
		if line["target"] != want || line["from"] != "Baton-gw" || strings.Contains(text, "/msg Baton-gw accept") != private {
			t.Errorf("line %v", line)
		}
		h.expectNothingOdd(t)
	}
}

func TestChatOpsAnswersLoggedInUsers(t *testing.T) {
	h := withChatOps(t, true)
	alice, other := h.alice(), h.offered(t, channel).View
	h.server.TellAs("nobody", "Baton-gw", "help")
	alice.Tell("scout", "help") // to another user
	alice.Tell("Baton-gw", "help")
	h.hears(t, "alice", "I carry handoffs")
	h.hears(t, "alice", "You are "+string(alice.DID))
	alice.Tell("baton-GW", "accept "+other.ID.String())
	ev := h.gateway.next(t)
	if ev.Verb != federation.Accept || ev.Provenance != federation.Vouched || ev.Actor() != alice.DID || ev.Venue != other.Venue {
		t.Errorf("filed is %+v", ev)
	}
	h.hears(t, "alice", "] accept: ")
	alice.Tell("Baton-gw", "room "+other.ID.String())
	h.hears(t, "alice", "I make no channels on this network.")
	for _, m := range h.server.Said() {
		if m["type"] == "privmsg" && m["target"] == "nobody" {
			t.Errorf("who is not logged in is answered %v", m["text"])
		}
	}
	h.expectNothingOdd(t)
}

func TestChatOpsSignsOnlyIfTheOperatorAllowsIt(t *testing.T) {
	h := withChatOps(t, false)
	alice, other := h.alice(), h.offered(t, channel).View
	alice.Tell("Baton-gw", "accept "+other.ID.String())
	h.hears(t, "alice", "NEED_SIGNATURE")
	alice.Tell("Baton-gw", "pair") // the DID is the word of the server
	h.hears(t, "alice", "NEED_SIGNATURE")
}
