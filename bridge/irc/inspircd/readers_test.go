package inspircd_test

import (
	"slices"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

// chatLine is a line of alice on another link.
func chatLine(text string) federation.Text {
	return federation.Text{
		ID: federation.ChatID(text), Author: alice, Venue: "#ops", Body: text,
		Arrival: federation.Arrival{Network: "spanningtree", Link: "lib", Name: "alice"},
	}
}

func TestDeliverWaitsForReadersAfterARestart(t *testing.T) {
	h, peer := linked(t, func(cfg *inspircd.Config, peer *bridgetest.IRCdConfig) {
		cfg.RelayChat, peer.Channels = []string{"#ops"}, nil
	})
	text, step := make(chan error, 1), make(chan error, 1)
	go func() { text <- h.link.DeliverText(waiting(t), chatLine("while you were away")) }()
	go func() { step <- h.link.Deliver(waiting(t), acceptRow(t)) }()
	if err := h.link.Deliver(waiting(t), privateRow(t)); err != nil {
		t.Fatal(err)
	}
	for _, m := range peer.Received() {
		if len(m.Params) > 0 && m.Params[0] == "#ops" && (m.Command == "PRIVMSG" || m.Command == "TAGMSG") {
			t.Fatalf("%s %q is written to a channel without users", m.Command, m.Params)
		}
	}
	for _, delivered := range []chan error{text, step} {
		select {
		case err := <-delivered:
			t.Fatalf("the delivery ended with %v before a user joined", err)
		default:
		}
	}
	peer.Enter("bob", "#ops")
	for _, delivered := range []chan error{text, step} {
		if err := <-delivered; err != nil {
			t.Error(err)
		}
	}
	var got []string
	for _, m := range peer.Received() {
		if len(m.Params) > 0 && m.Params[0] == "#ops" && (m.Command == "PRIVMSG" || m.Command == "TAGMSG") {
			got = append(got, m.Command)
		}
	}
	if slices.Sort(got); !slices.Equal(got, []string{"PRIVMSG", "TAGMSG"}) {
		t.Errorf("bob reads %q", got)
	}
	peer.Leave("bob", "#ops")
	if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
		t.Errorf("a step of a channel that its users left: %v", err)
	}
}
