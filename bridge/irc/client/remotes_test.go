package client_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
)

// presences is a [bridge.Presence] that keeps the changes sent to other links.
type presences struct{ changes chan bridge.PresenceChange }

func (presences) Left(context.Context, federation.DID) bool { return false }

func (p presences) Changed(_ context.Context, c bridge.PresenceChange) { p.changes <- c }

// relaying starts a listener that relays #ops.
func relaying(t *testing.T) (*house, relayed, presences) {
	t.Helper()
	kept, p := relayed{lines: make(chan string, 8)}, presences{changes: make(chan bridge.PresenceChange, 8)}
	cfg := testConfig()
	cfg.RelayChat = []string{"#ops"}
	return start(t, cfg, func(d *client.Deps) { d.Messages, d.Presence = kept, p }), kept, p
}

func TestRemoteUserIsShown(t *testing.T) {
	t.Parallel()
	h, kept, _ := relaying(t)
	guest := kept.Guest("lab", "carol")
	reader := dial(t, h.addr)
	reader.register(t, "reader", "extended-join away-notify account-tag")
	reader.say(t, "JOIN #ops", "MONITOR + carol,caroline")
	reader.until(t, ":gw.example 731 reader :carol,caroline")
	if err := h.link.DeliverText(t.Context(), fromLab(1, guest, "carol")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		":gw.example 730 reader :carol!*@gw.example", ":carol!*@gw.example JOIN #ops \\* :carol", ":carol!*@gw.example PRIVMSG #ops :line of carol",
	} {
		if line := reader.hear(t); !matches(strings.ReplaceAll(want, "\\*", "*"), line) {
			t.Errorf("the reader hears %q, want %q", line, want)
		}
	}
	for command, want := range map[string]string{
		"NAMES #ops":        ":gw.example 353 reader = #ops :carol reader",
		"WHO #ops":          ":gw.example 352 reader #ops * gw.example gw.example carol H :0 carol",
		"WHO carol %na":     ":gw.example 354 reader carol 0",
		"WHOIS carol":       ":gw.example 320 reader carol :is a user of another network, with the address " + string(guest),
		"ISON carol":        ":gw.example 303 reader :carol",
		"USERHOST carol":    ":gw.example 302 reader :carol=+*@gw.example",
		"INVITE carol #ops": ":gw.example 401 reader carol *",
	} {
		reader.say(t, command)
		reader.until(t, want)
	}
	reader.say(t, "WHOIS carol")
	for line := ""; !matches("* 318 *", line); line = reader.hear(t) {
		if matches("* 330 *", line) {
			t.Errorf("a guest of another network has an account: %q", line)
		}
	}
	follow := func(c bridge.PresenceChange, want ...string) {
		t.Helper()
		c.Link = "lab"
		h.link.Follow(t.Context(), c)
		for _, each := range want {
			reader.until(t, each)
		}
	}
	follow(bridge.PresenceChange{DID: guest, Away: "at lunch"}, ":carol!*@gw.example AWAY :at lunch")
	reader.say(t, "WHO carol")
	reader.until(t, "* carol G :0 carol")
	follow(bridge.PresenceChange{DID: guest}, ":carol!*@gw.example AWAY")
	renamed := kept.Guest("lab", "caroline")
	follow(bridge.PresenceChange{DID: guest, Name: "caroline", Now: renamed}, ":carol!*@gw.example NICK :caroline", "*731 reader :carol", "*730 reader :caroline!*")
	// A line sent before the change.
	if err := h.link.DeliverText(t.Context(), fromLab(2, guest, "carol")); err != nil {
		t.Fatal(err)
	}
	reader.until(t, ":caroline!*@gw.example PRIVMSG #ops :line of carol")
	reader.say(t, "NAMES #ops")
	reader.until(t, ":gw.example 353 reader = #ops :caroline reader")
	follow(bridge.PresenceChange{DID: renamed, Gone: true}, ":caroline!*@gw.example QUIT :left its own network", "*731 reader :caroline")
	reader.say(t, "NAMES #ops")
	reader.until(t, ":gw.example 353 reader = #ops :reader")
}

func TestRemoteUserYieldsItsNick(t *testing.T) {
	t.Parallel()
	h, kept, _ := relaying(t)
	reader, other := dial(t, h.addr), dial(t, h.addr)
	reader.register(t, "reader", "")
	reader.say(t, "JOIN #ops")
	reader.until(t, "* 366 *")
	if err := h.link.DeliverText(t.Context(), fromLab(1, kept.Guest("lab", "carol"), "carol")); err != nil {
		t.Fatal(err)
	}
	reader.until(t, ":carol!*PRIVMSG #ops :line of carol")
	other.register(t, "carol", "")
	line := reader.until(t, ":carol!* NICK :carol_*")
	_, substitute, _ := strings.Cut(line, " NICK :")
	other.say(t, "QUIT")
	reader.until(t, ":"+substitute+"!* NICK :carol")
}

func TestPresenceChangesReachOtherLinks(t *testing.T) {
	t.Parallel()
	h, kept, told := relaying(t)
	silent, zoe := dial(t, h.addr), dial(t, h.addr)
	silent.register(t, "silent", "")
	silent.say(t, "JOIN #ops", "NICK still", "AWAY :x", "QUIT")
	zoe.register(t, "zoe", "")
	zoe.say(t, "JOIN #ops", "PRIVMSG #ops :hello")
	<-kept.lines
	zoe.say(t, "AWAY :tea", "AWAY", "NICK zora", "QUIT")
	zoe.until(t, "ERROR *")
	as := func(nick string) federation.DID { return kept.Guest("client", nick) }
	want := []bridge.PresenceChange{
		{Link: "client", DID: as("zoe"), Away: "tea"},
		{Link: "client", DID: as("zoe")},
		{Link: "client", DID: as("zoe"), Name: "zora", Now: as("zora")},
		{Link: "client", DID: as("zora"), Gone: true},
	}
	var got []bridge.PresenceChange
	for range want {
		got = append(got, <-told.changes)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
