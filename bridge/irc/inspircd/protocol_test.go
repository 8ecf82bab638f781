package inspircd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// eachProtocol runs a test against a peer of each version of the protocol.
func eachProtocol(t *testing.T, test func(t *testing.T, protocol int)) {
	t.Helper()
	for _, protocol := range []int{1205, 1206} {
		t.Run(fmt.Sprint(protocol), func(t *testing.T) { test(t, protocol) })
	}
}

// protocolOf returns the version of the protocol that a test is about: that of [eachProtocol], or the older one.
func protocolOf(t *testing.T) int {
	t.Helper()
	if strings.Contains(t.Name(), "/1206") {
		return 1206
	}
	return 1205
}

// uid is the line that introduces a user of a server, in the protocol that a test is about.
func uid(t *testing.T, uuid string, nickTS int64, nick string) string {
	t.Helper()
	ident := map[int]string{1205: "i", 1206: "i i"}[protocolOf(t)]
	return fmt.Sprintf(":%s UID %s %d %s h h %s 127.0.0.1 1795226757 + :real", uuid[:3], uuid, nickTS, nick, ident)
}

// speaking makes the peer speak a version.
func speaking(protocol int) func(*inspircd.Config, *bridgetest.IRCdConfig) {
	return func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) { peer.Protocol = protocol }
}

// settle waits until the gateway has acted on all lines of the peer before.
func settle(t *testing.T, peer *bridgetest.IRCd) {
	t.Helper()
	peer.Send(":" + peer.UUID("alice") + " TIME gw.example")
	await(t, peer, "NUM")
}

func TestProtocolRoundTrips(t *testing.T) {
	protocol := protocolOf(t)
	newer := protocol == 1206
	t.Run("link, where the gateway dials", func(t *testing.T) {
		h, peer := linked(t, speaking(protocol))
		if got := h.link.Describe().Negotiated["protocol"]; got != fmt.Sprint(protocol) {
			t.Errorf("protocol %q", got)
		}
		user := await(t, peer, "UID").Params // Err of the peer describes its mistakes
		if want := map[bool]int{false: 10, true: 11}[newer]; len(user) != want {
			t.Errorf("UID has %d parameters, want %d", len(user), want)
		}
		if newer && user[5] != user[6] {
			t.Errorf("real and shown user names %q", user[5:7])
		}
	})
	t.Run("link, where the gateway is dialled", func(t *testing.T) {
		dialled(t, speaking(protocol))
	})
	t.Run("tell the software in their own words", func(t *testing.T) {
		_, peer := linked(t, speaking(protocol))
		want := []string{"version", "Baton. gw.example :"}
		if newer {
			want = []string{"customversion", ""}
		}
		if got := await(t, peer, "SINFO").Params; !cmp.Equal(got, want) {
			t.Errorf("SINFO %q, want %q", got, want)
		}
	})
	t.Run("carry steps both ways", func(t *testing.T) {
		h, peer := linked(t, speaking(protocol))
		peer.Tagmsg("alice", "#ops", offerTags())
		if ev := h.gateway.next(t); ev.Arrival.Name != "alice" || ev.Arrival.User != "alice" {
			t.Errorf("arrival %+v", ev.Arrival)
		}
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "TAGMSG", from("scholar"))
	})
	t.Run("name the module of tags", func(t *testing.T) {
		h, peer := linked(t, speaking(protocol))
		module := map[bool]string{false: "m_ircv3_ctctags.so", true: "ircv3_ctctags"}[newer]
		tags := func() bool {
			return !strings.Contains(strings.Join(h.link.Describe().NotCarried, ";"), "no message tags")
		}
		for sign, want := range map[string]bool{"-": false, "+": true} {
			peer.Send(":1AA METADATA * modules :" + sign + module)
			settle(t, peer)
			if tags() != want {
				t.Errorf("after %s%s the peer has tags: %v", sign, module, tags())
			}
		}
	})
	t.Run("bound names", func(t *testing.T) {
		h, peer := linked(t, speaking(protocol))
		d := acceptRow(t)
		h.gateway.names[scholar] = strings.Repeat("long", 20)
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "UID") // the peer holds each to its limits
	})
	t.Run("have a form for the lists of a channel", func(t *testing.T) {
		h, peer := linked(t, speaking(protocol))
		form := ":1AA FMODE #ops %d +b scholar*!*@*"
		if newer {
			form = ":1AA LMODE #ops %d b scholar*!*@* alice 1795228408"
		}
		peer.Send(fmt.Sprintf(form, peer.Age("#ops")))
		settle(t, peer)
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err == nil || !strings.Contains(err.Error(), "banned (+b)") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("have private tags, which are no business of the gateway", func(t *testing.T) {
		h, peer := linked(t, speaking(protocol))
		peer.Send("@~context=#ops;msgid=x1;+freeq.at/handoff=offer;+freeq.at/handoff-id=" + offerID + ";+freeq.at/handoff-from=" + string(alice) +
			";+freeq.at/handoff-to=" + string(scholar) + ";+freeq.at/handoff-task=t;+freeq.at/eventid=" + offerID +
			" :" + peer.UUID("alice") + " TAGMSG #ops")
		if ev := h.gateway.next(t); ev.Venue != "#ops" || len(ev.Fields) != 5 {
			t.Errorf("event %+v", ev)
		}
	})
	t.Run("change the shown names of users, which bindings and blocks do not follow", func(t *testing.T) {
		h, peer := linked(t, speaking(protocol))
		uuid := peer.UUID("alice")
		if newer {
			peer.Send(":" + uuid + " FIDENT other *")
			peer.Send(":" + uuid + " FHOST other.example *")
		} else {
			peer.Send(":" + uuid + " FIDENT other")
			peer.Send(":" + uuid + " FHOST other.example")
		}
		peer.Tagmsg("alice", "#ops", offerTags())
		if ev := h.gateway.next(t); ev.Arrival.User != "alice" {
			t.Errorf("arrival %+v", ev.Arrival)
		}
	})
}
