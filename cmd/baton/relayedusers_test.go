//go:build interop

package main_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// hears waits until a client receives a command of a user, with a last parameter.
func hears(t *testing.T, c *bridgetest.IRCClient, nick, command, last string) {
	t.Helper()
	if _, err := c.Next(patient(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == command && nickOf(m) == nick && (last == "" || strings.EqualFold(m.Params[len(m.Params)-1], last))
	}); err != nil {
		t.Fatalf("%s of %s: %v", command, nick, err)
	}
}

func issue(t *testing.T, c *bridgetest.IRCClient, command string, params ...string) {
	t.Helper()
	if err := c.Send(nil, command, params...); err != nil {
		t.Fatal(err)
	}
}

// Reports: matrix-org/matrix-appservice-irc#735 and #1776: both nicks of a user stayed.
func TestRelayedUserChangesItsNick(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t)
	utter(t, n.ann, channel, "hello from ann")
	clientReads(t, n.bob, "hello from ann")
	clientReads(t, n.zoe, "hello from ann")
	issue(t, n.ann, "NICK", "anna")
	for _, reader := range []*bridgetest.IRCClient{n.bob, n.zoe} {
		hears(t, reader, "ann", "NICK", "anna")
	}
	issue(t, n.ann, "AWAY", "at lunch")
	utter(t, n.ann, channel, "hello from anna")
	for _, reader := range []*bridgetest.IRCClient{n.bob, n.zoe} {
		if m := clientReads(t, reader, "hello from anna"); nickOf(m) != "anna" {
			t.Errorf("the line comes from %s", m.Source)
		}
		issue(t, reader, "NAMES", channel)
		m, err := reader.Next(patient(t), func(m bridgetest.IRCMessage) bool {
			return m.Command == "353" && strings.Contains(m.Params[3], "anna")
		})
		if err != nil {
			t.Fatal(err)
		}
		if names := strings.Fields(m.Params[3]); len(names) != len(withoutNick(names, "ann")) {
			t.Errorf("both nicks are there: %q", names)
		}
		issue(t, reader, "WHOIS", "anna")
		if _, err := reader.Next(patient(t), func(m bridgetest.IRCMessage) bool { return m.Command == "301" && m.Params[2] == "at lunch" }); err != nil {
			t.Errorf("the user is not away: %v", err)
		}
	}
	issue(t, n.ann, "QUIT")
	for _, reader := range []*bridgetest.IRCClient{n.bob, n.zoe} {
		hears(t, reader, "anna", "QUIT", "")
	}

	// A user of the listener without a login.
	utter(t, n.zoe, channel, "hello from zoe")
	clientReads(t, n.bob, "hello from zoe")
	issue(t, n.zoe, "NICK", "zora")
	hears(t, n.bob, "zoe", "NICK", "zora")
	issue(t, n.zoe, "QUIT")
	hears(t, n.bob, "zora", "QUIT", "")
}

func TestRelayedUserIsAway(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t)
	away := func(reader *bridgetest.IRCClient, nick, why string) {
		t.Helper()
		issue(t, reader, "WHOIS", nick)
		if _, err := reader.Next(patient(t), func(m bridgetest.IRCMessage) bool { return m.Command == "301" && m.Params[2] == why }); err != nil {
			t.Errorf("%s is not away: %v", nick, err)
		}
	}
	issue(t, n.ann, "AWAY", "in the garden")
	issue(t, n.zoe, "AWAY", "in the cellar")
	utter(t, n.ann, channel, "hello from ann")
	utter(t, n.zoe, channel, "hello from zoe")
	clientReads(t, n.bob, "hello from ann")
	clientReads(t, n.bob, "hello from zoe")
	clientReads(t, n.zoe, "hello from ann")
	away(n.bob, "ann", "in the garden")
	away(n.bob, "zoe", "in the cellar")
	away(n.zoe, "ann", "in the garden")
}

// withoutNick returns nicks of NAMES without one of them.
func withoutNick(names []string, nick string) (others []string) {
	for _, name := range names {
		if strings.TrimLeft(name, "@+") != nick {
			others = append(others, name)
		}
	}
	return others
}
