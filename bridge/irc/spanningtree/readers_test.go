package spanningtree_test

import (
	"testing"

	"baton/bridge/bridgetest"
	"baton/bridge/irc/spanningtree"
	"baton/federation"
)

// chatRow is a line of alice on another link.
func chatRow(t *testing.T, text string) federation.Delivery {
	t.Helper()
	return federation.Delivery{Row: 2, Entry: federation.Entry{Event: federation.Event{
		ID: federation.ChatID(text), Verb: federation.Message, From: alice, Venue: "#ops", Note: text,
		Arrival: federation.Arrival{Network: "spanningtree", Link: "lib", Name: "alice"},
	}}}
}

func TestTextOfAChannelWaitsForUsersAfterARestart(t *testing.T) {
	h, peer := linked(t, func(cfg *spanningtree.Config, _ *bridgetest.IRCdConfig) { cfg.RelayChat = []string{"#ops"} })
	peer.Leave("alice", "#ops")
	peer.Leave("bob", "#ops")
	if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil { // the peer has read it, and we its PARTs
		t.Fatal(err)
	}
	delivered := make(chan error, 1)
	go func() { delivered <- h.link.Deliver(waiting(t), chatRow(t, "while you were away")) }()
	if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
		t.Fatal(err)
	}
	for _, m := range peer.Received() {
		if m.Command == "PRIVMSG" {
			t.Fatalf("%q is written to a channel without users", m.Params)
		}
	}
	select {
	case err := <-delivered:
		t.Fatalf("the line ended with %v before a user joined", err)
	default:
	}
	peer.Enter("bob", "#ops")
	if m := await(t, peer, "PRIVMSG"); m.Params[1] != "while you were away" {
		t.Errorf("bob reads %q", m.Params)
	}
	if err := <-delivered; err != nil {
		t.Error(err)
	}
}
