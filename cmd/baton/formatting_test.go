//go:build interop

package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// twoNetworks is a gateway between two real InspIRCd networks and its own listener, with a user in
// the channel of each.
type twoNetworks struct {
	*homeServer

	ann, bob, zoe *bridgetest.IRCClient // on lab, on lib, on the listener
	lab, lib      *network
}

// newTwoNetworks starts it. The settings are added to the tables of lab, lib and the listener.
func newTwoNetworks(t *testing.T, settings ...string) *twoNetworks {
	t.Helper()
	settings = append(settings, "", "", "")
	n := &twoNetworks{homeServer: &homeServer{house: newHouse(t), irc: federationtest.FreeAddr(t)}}
	n.lab, n.lib = newNetwork(t, n.house, "lab", "1LA"), newNetwork(t, n.house, "lib", "2LI")
	n.configure(t, n.lab.table+relaying+settings[0], n.lib.table+relaying+settings[1], fmt.Sprintf("[irc.client]\nlisten = %q\nchannels = [%q]\n", n.irc, channel)+relaying+settings[2])
	n.start(t)
	n.ready(t)
	n.ann, n.bob, n.zoe = n.lab.join(t, "ann", "message-tags"), n.lib.join(t, "bob", "message-tags"), n.join(t, "zoe")
	return n
}

// join connects a client to the listener and brings it into the channel.
func (n *twoNetworks) join(t *testing.T, nick string, caps ...string) *bridgetest.IRCClient {
	t.Helper()
	c, err := bridgetest.DialIRC(patient(t), n.irc, nick, append([]string{"message-tags"}, caps...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Join(patient(t), channel); err != nil {
		t.Fatal(err)
	}
	return c
}

// utter writes a line in the channel, as its bytes are.
func utter(t *testing.T, c *bridgetest.IRCClient, target, text string) {
	t.Helper()
	if err := c.SendRaw([]byte("PRIVMSG " + target + " :" + text + "\r\n")); err != nil {
		t.Fatal(err)
	}
}

// Reports: 42wim/matterbridge#33, whose readers saw the digits of colours, and #465, which lost digits
// behind other codes.
func TestFormattingPassesBetweenNetworks(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t)
	long := "\x0304" + strings.TrimSpace(strings.Repeat("word ", 80))
	for _, text := range []string{
		"\x0304,02red on blue\x03 \x02bold\x02 \x1Ditalics\x0F \x04ff00aahex\x04 \x1Funder\x1F \x1Estrike\x1E \x11mono\x11 \x16reverse\x16",
		"\x01ACTION waves \x02twice\x01",
	} {
		for name, c := range map[string]struct{ from, to, also *bridgetest.IRCClient }{
			"lab to lib": {n.ann, n.bob, n.zoe}, "lib to lab": {n.bob, n.ann, n.zoe}, "listener to both": {n.zoe, n.ann, n.bob},
		} {
			utter(t, c.from, channel, text)
			for _, reader := range []*bridgetest.IRCClient{c.to, c.also} {
				if got := clientReads(t, reader, text); got.Params[1] != text {
					t.Errorf("%s: %q", name, got.Params[1])
				}
			}
		}
	}
	utter(t, n.ann, channel, long)
	first := strings.TrimSpace(long[:len("\x0304")+63*len("word ")])
	clientReads(t, n.bob, first)
	clientReads(t, n.bob, "\x0304"+strings.TrimSpace(long[len(first):]))
	utter(t, n.bob, "ann", "\x0303in private")
	clientReads(t, n.ann, "\x0303in private")
}

func TestFormattingIsRemovedForPlainLinks(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t, "", "formatting = false\n")
	utter(t, n.ann, channel, "\x0304,02red\x03 5 \x02bold")
	clientReads(t, n.bob, "red 5 bold")
	clientReads(t, n.zoe, "\x0304,02red\x03 5 \x02bold")
	utter(t, n.bob, channel, "\x0312blue\x03 \x1Dsky")
	clientReads(t, n.ann, "blue sky")
	clientReads(t, n.zoe, "blue sky")
}

// Report: Throne3d/node-irc#13: umlauts in Latin-1 arrived damaged.
func TestChatTextIsNotDamaged(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t)
	for text, want := range map[string]string{
		"می\u200Cخواهم و क्\u200Dष":                 "می\u200Cخواهم و क्\u200Dष",
		"👨\u200D👩\u200D👧 🏳\uFE0F\u200D🌈 🇩🇪 ❤\uFE0F": "👨\u200D👩\u200D👧 🏳\uFE0F\u200D🌈 🇩🇪 ❤\uFE0F",
		"  if x:\treturn":           "  if x: return",
		"a\u2028b":                  "a b",
		"pay \u202Eevila\u202C now": "pay evila now",
		"caf\xe9 f\xfcr zwei":       "café für zwei", // in Latin-1
	} {
		utter(t, n.ann, channel, text)
		clientReads(t, n.bob, want)
		clientReads(t, n.zoe, want)
	}
}

// Report: divinevideo/divine-mobile#7324: the second of two equal messages was taken for a repeat.
func TestChatEqualLinesAppearTwice(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t)
	for range 2 {
		utter(t, n.ann, channel, "ping")
	}
	utter(t, n.ann, channel, "the end")
	clientReads(t, n.bob, "the end")
	clientReads(t, n.zoe, "the end")
	for name, c := range map[string]*bridgetest.IRCClient{"lib": n.bob, "the listener": n.zoe} {
		times := 0
		for _, line := range chatIn(c.Received()) {
			if strings.HasSuffix(line, " PRIVMSG ping") {
				times++
			}
		}
		if times != 2 {
			t.Errorf("%s reads the line %d times, want 2", name, times)
		}
	}
}
