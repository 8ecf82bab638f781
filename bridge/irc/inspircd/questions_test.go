package inspircd_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestQueriesToThisServerAreAnswered(t *testing.T) {
	_, peer := linked(t, nil)
	alice := peer.UUID("alice")
	for question, want := range map[string]string{
		"TIME gw.example": "391 gw.example", "VERSION gw.example": "351 Baton gw.example", "ADMIN gw.example": "259 the operator of gw.example", "INFO gw.example": "374 End of /INFO list",
		"MOTD gw.example": "422 There is no message of the day", "STATS u gw.example": "219 u End of /STATS report",
	} {
		peer.Send(":" + alice + " " + question)
		numeric, _, _ := strings.Cut(want, " ")
		m := await(t, peer, "NUM", func(m bridgetest.IRCMessage) bool { return m.Params[2] == numeric })
		if got := strings.Join(m.Params[2:], " "); m.Source != "9GW" || m.Params[0] != "9GW" || m.Params[1] != alice || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s answers %q", question, m.Source, m.Params)
		}
	}
}

func TestNickIsRestoredOnceFree(t *testing.T) {
	for name, free := range map[string]func(peer *bridgetest.IRCd){
		"by QUIT": func(peer *bridgetest.IRCd) { peer.Quit("Baton") },
		"by NICK": func(peer *bridgetest.IRCd) { peer.Rename("Baton", "other") },
	} {
		t.Run(name, func(t *testing.T) {
			_, peer := linked(t, nil)
			peer.Connect("Baton")
			if nick := await(t, peer, "NICK").Params[0]; nick == "Baton" {
				t.Fatal("the gateway's user keeps the nick")
			}
			free(peer)
			if nick := await(t, peer, "NICK").Params[0]; nick != "Baton" {
				t.Errorf("the gateway's user is called %q", nick)
			}
		})
	}
}
