package inspircd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// withNew is linked, with a channel that the network does not have.
func withNew(t *testing.T) *bridgetest.IRCd {
	t.Helper()
	_, peer := linked(t, func(cfg *inspircd.Config, _ *bridgetest.IRCdConfig) { cfg.Channels = []string{"#ops", "#new"} })
	return peer
}

// synced waits until the gateway has acted on all lines of the peer before.
func synced(t *testing.T, peer *bridgetest.IRCd) {
	t.Helper()
	uuid := peer.UUID("alice")
	peer.Send(":" + uuid + " IDLE " + await(t, peer, "UID").Params[0])
	await(t, peer, "IDLE")
}

func TestOperatorIsTheFirstUserOfACreatedChannel(t *testing.T) {
	peer := withNew(t)
	made := await(t, peer, "FJOIN", func(m bridgetest.IRCMessage) bool { return m.Params[0] == "#new" })
	peer.Enter("alice", "#new")
	mode := await(t, peer, "FMODE")
	if want := []string{"#new", made.Params[1], "+o", peer.UUID("alice")}; mode.Source != "9GW" || !cmp.Equal(mode.Params, want) {
		t.Errorf("%s sets %q, want %q", mode.Source, mode.Params, want)
	}
	peer.Enter("bob", "#new")
	synced(t, peer)
	if n := countOf(peer, "FMODE"); n != 0 {
		t.Errorf("%d operators more", n)
	}
}

func TestChannelIsCreatedAgainAfterTheLastUserLeft(t *testing.T) {
	for name, leave := range map[string]func(peer *bridgetest.IRCd){
		"by PART": func(peer *bridgetest.IRCd) { peer.Leave("alice", "#new") },
		"by QUIT": func(peer *bridgetest.IRCd) { peer.Quit("alice") },
	} {
		t.Run(name, func(t *testing.T) {
			peer := withNew(t)
			isNew := func(m bridgetest.IRCMessage) bool { return m.Params[0] == "#new" }
			await(t, peer, "FJOIN", isNew)
			peer.Enter("alice", "#new")
			await(t, peer, "FMODE")
			leave(peer)
			if left := await(t, peer, "PART"); left.Nick != "Baton" || left.Params[0] != "#new" {
				t.Errorf("%s leaves %q", left.Nick, left.Params)
			}
			made := await(t, peer, "FJOIN", isNew)
			peer.Enter("bob", "#new")
			if mode := await(t, peer, "FMODE"); !cmp.Equal(mode.Params, []string{"#new", made.Params[1], "+o", peer.UUID("bob")}) {
				t.Errorf("sets %q", mode.Params)
			}
		})
	}
}

func TestOperatorIsNotSetInChannelsOfTheNetwork(t *testing.T) {
	peer := withNew(t)
	peer.Connect("carol")
	peer.Enter("carol", "#ops")
	synced(t, peer)
	if n := countOf(peer, "FMODE") + countOf(peer, "PART"); n != 0 {
		t.Errorf("%d changes", n)
	}
}
