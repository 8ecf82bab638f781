package inspircd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// afterAStep is a link on which the scholar has spoken, with the parameters of its UID.
func afterAStep(t *testing.T) (house, *bridgetest.IRCd, []string) {
	t.Helper()
	h, peer := linked(t, nil)
	if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
		t.Fatal(err)
	}
	await(t, peer, "UID")
	await(t, peer, "TAGMSG")
	return h, peer, await(t, peer, "UID").Params
}

// isIn holds for lines that name a channel first.
func isIn(channel string) func(bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool { return m.Params[0] == channel }
}

func TestServicesControlPseudoClients(t *testing.T) {
	const age = "1795226999"
	nicks := []struct{ name, line, nick, age string }{
		{"SVSNICK", ":1AA ENCAP 9GW SVSNICK %[1]s other " + age, "other", age},
		{"SVSNICK without ENCAP", ":1AA SVSNICK %[1]s other " + age, "other", age},
		{"SVSNICK for the nick that it has", ":1AA ENCAP 9GW SVSNICK %[1]s other " + age + " %[2]s", "other", age},
		{"SANICK", ":%[3]s ENCAP 9GW SANICK %[1]s other", "other", ""},
		{"SANICK by nick", ":%[3]s ENCAP 9GW SANICK scholar other", "other", ""},
		{"SVSNICK to a nick that is taken", ":1AA ENCAP 9GW SVSNICK %[1]s bob " + age, "%[1]s", age},
		{"SVSNICK to what is no nick", ":1AA ENCAP 9GW SVSNICK %[1]s 1@b " + age, "%[1]s", age},
		{"SVSNICK to a nick that is too long", ":1AA ENCAP 9GW SVSNICK %[1]s " + strings.Repeat("x", 31) + " " + age, "%[1]s", age},
	}
	for _, tt := range nicks {
		t.Run(tt.name, func(t *testing.T) {
			_, peer, user := afterAStep(t)
			peer.Send(fmt.Sprintf(tt.line, user[0], user[1], peer.UUID("alice")))
			m := await(t, peer, "NICK")
			want := tt.nick
			if strings.HasPrefix(want, "%") {
				want = user[0]
			}
			if m.Source != user[0] || m.Params[0] != want || tt.age != "" && m.Params[1] != tt.age {
				t.Errorf("%s NICK %q, want %s", m.Source, m.Params, want)
			}
		})
	}
	for name, line := range map[string]string{
		"for a nick that the user gave up": ":1AA ENCAP 9GW SVSNICK %s other " + age + " 1",
		"for another server":               ":1AA ENCAP 8XX SVSNICK %s other " + age,
		"for a user of another server":     ":1AA ENCAP 9GW SVSNICK 1AAAAAAAA other " + age + " %.0s",
		"without parameters":               ":1AA ENCAP 9GW SVSNICK %s",
		"that no server knows":             ":1AA ENCAP 9GW SVSFROB %s other " + age,
	} {
		t.Run("not an order "+name, func(t *testing.T) {
			_, peer, user := afterAStep(t)
			peer.Send(fmt.Sprintf(line, user[0]))
			settle(t, peer)
			if n := countOf(peer, "NICK"); n != 0 {
				t.Errorf("%d changes", n)
			}
		})
	}
	t.Run("and keep the nick that they were given, also over a split", func(t *testing.T) {
		_, peer, user := afterAStep(t)
		peer.Send(":1AA ENCAP 9GW SVSNICK " + user[0] + " other " + age)
		await(t, peer, "NICK")
		peer.Quit("bob") // which frees a nick, so that users take theirs back
		settle(t, peer)
		if n := countOf(peer, "NICK"); n != 0 {
			t.Errorf("%d changes", n)
		}
		peer.Drop()
		await(t, peer, "UID")
		if again := await(t, peer, "UID").Params; again[0] != user[0] || again[1] != age || again[2] != "other" {
			t.Errorf("comes back as %q", again)
		}
	})
	for _, order := range []string{"SVSPART", "SAPART"} {
		t.Run(order+" takes a user out until "+strings.TrimSuffix(order, "PART")+"JOIN brings it back", func(t *testing.T) {
			h, peer, user := afterAStep(t)
			await(t, peer, "FJOIN", isIn("#ops"))
			peer.Send(":1AA ENCAP 9GW " + order + " " + user[0] + " #ops :out")
			if m := await(t, peer, "PART"); m.Source != user[0] || m.Params[0] != "#ops" {
				t.Errorf("%s leaves %q", m.Source, m.Params)
			}
			if why := policy(t, h); !strings.Contains(why, "services of the network took the user out") {
				t.Errorf("refusal %q", why)
			}
			mode(t, peer, "#ops", "+ik secret")
			peer.Send(":1AA ENCAP 9GW " + strings.TrimSuffix(order, "PART") + "JOIN " + user[0] + " #ops")
			settle(t, peer)
			if why := policy(t, h); why != "" {
				t.Errorf("refused: %s", why)
			}
		})
	}
	t.Run("SVSJOIN brings a user into other channels, and SVSPART out of them", func(t *testing.T) {
		_, peer, user := afterAStep(t)
		peer.Send(":1AA ENCAP 9GW SVSJOIN " + user[0] + " #help,#Other,nonsense")
		for _, name := range []string{"#help", "#Other"} {
			if m := await(t, peer, "FJOIN", isIn(name)); !strings.Contains(m.Params[3], user[0]) {
				t.Errorf("joins %q", m.Params)
			}
		}
		peer.Send(":1AA ENCAP 9GW SVSPART " + user[0] + " #other")
		if m := await(t, peer, "PART"); m.Params[0] != "#other" {
			t.Errorf("leaves %q", m.Params)
		}
		peer.Send(":1AA ENCAP 9GW SVSPART " + user[0] + " #other")
		for i := range 2 * inspircd.MaxVisits {
			peer.Send(fmt.Sprintf(":1AA ENCAP 9GW SVSJOIN %s #c%d", user[0], i))
		}
		settle(t, peer)
		joined := slices.DeleteFunc(peer.Received(), func(m bridgetest.IRCMessage) bool {
			return m.Command != "FJOIN" || !strings.HasPrefix(m.Params[0], "#c")
		})
		if len(joined) != inspircd.MaxVisits-1 || countOf(peer, "PART") != 0 {
			t.Errorf("in %d channels more", len(joined))
		}
	})
}

func TestRSQUITEndsTheLink(t *testing.T) {
	for _, line := range []string{" RSQUIT gw.example :why", " RSQUIT 9GW :why"} {
		h, peer := linked(t, nil)
		peer.Send(":" + peer.UUID("alice") + " RSQUIT other.example :why") // not behind this server
		settle(t, peer)
		peer.Send(":" + peer.UUID("alice") + line)
		if m := await(t, peer, "SQUIT"); m.Params[0] != "9GW" || m.Params[1] != "RSQUIT by alice" {
			t.Errorf("SQUIT %q", m.Params)
		}
		awaitLog(t, h, "taken off the network")
		await(t, peer, "ENDBURST")
		await(t, peer, "ENDBURST")
	}
}
