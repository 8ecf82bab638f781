package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// fromLab is a line of a channel from a user of another network.
func fromLab(n int, author federation.DID, nick string) federation.Text {
	return federation.Text{
		ID: federationtest.ID(n), Author: author, Venue: "#ops", Body: "line of " + nick,
		Arrival: federation.Arrival{Network: "spanningtree", Link: "lab", Name: nick, Received: time.Now()},
	}
}

func TestAccountTagIsOnlyForLocalLogins(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.RelayChat = []string{"#ops"}
	kept := relayed{lines: make(chan string, 8)}
	h := start(t, cfg, func(d *client.Deps) { d.Messages = kept })
	reader, local := dial(t, h.addr), dial(t, h.addr)
	reader.register(t, "reader", "message-tags account-tag extended-join")
	reader.say(t, "JOIN #ops")
	reader.until(t, "* 366 *")
	local.login(t)
	local.say(t, "JOIN #ops")
	reader.until(t, "*JOIN #ops "+string(ada)+" *")
	for n, c := range []struct {
		author     federation.DID
		nick       string
		tags, none string
	}{
		{kept.Guest("lab", "guest"), "guest", "", "did"},          // has proved nothing
		{bob, "bob", "freeq.at/did=" + string(bob), "account="},   // proved a DID on lab
		{ada, "ada", "account=" + string(ada), "freeq.at/did="},   // is logged in here too
		{bob, "bobby", "freeq.at/did=" + string(bob), "account="}, // after a nick change
	} {
		if err := h.link.DeliverText(t.Context(), fromLab(n+1, c.author, c.nick)); err != nil {
			t.Fatal(err)
		}
		line := reader.until(t, "*PRIVMSG #ops :line of "+c.nick)
		tags, _, _ := strings.Cut(line, " ")
		if !strings.Contains(tags, c.tags) || strings.Contains(tags, c.none) {
			t.Errorf("the line of %s is %q, want the tag %q and no %q", c.nick, line, c.tags, c.none)
		}
	}
	local.say(t, "@freeq.at/did="+string(bob)+";+freeq.at/did="+string(bob)+" PRIVMSG #ops :forged")
	if line := reader.until(t, "*PRIVMSG #ops :forged"); !strings.Contains(line, "account="+string(ada)) || strings.Contains(line, "freeq.at/did") {
		t.Errorf("a client forged the tag: %q", line)
	}
}

func TestAccountTagIsAbsentForRemoteUsers(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	reader := dial(t, h.addr)
	reader.register(t, "reader", "message-tags account-tag freeq.at/handoff")
	reader.say(t, "JOIN #ops")
	reader.until(t, "* 366 *")
	f := federationtest.File(federationtest.Offer(1, bob, ada), federation.View{})
	f.Event.Venue, f.View.Venue, f.View.Link = "#ops", "#ops", ""
	f.Event.Arrival.Link = "lab"
	if err := h.link.Deliver(t.Context(), federation.Delivery{Entry: federation.Entry{Event: f.Event, Version: 1}, View: f.View}); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"TAGMSG", "NOTICE"} {
		line := reader.until(t, "*"+command+" #ops*")
		if tags, _, _ := strings.Cut(line, " "); !strings.Contains(tags, "freeq.at/did="+string(bob)) || strings.Contains(tags, "account=") {
			t.Errorf("the %s has the tags %q", command, tags)
		}
	}
}
