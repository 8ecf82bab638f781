package inspircd_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

func TestBurstIsReadAndWritten(t *testing.T) {
	t.Run("introduces the gateway's user after the peer's burst, in the channels, with their age", func(t *testing.T) {
		_, peer := linked(t, func(cfg *inspircd.Config, peer *bridgetest.IRCdConfig) {
			cfg.Channels = []string{"#Ops", "#new"} // the first is there, as #ops
		})
		user := await(t, peer, "UID")
		if user.Params[2] != "Baton" || user.Params[4] != "gw.example" {
			t.Errorf("user %q", user.Params)
		}
		for _, want := range []string{"#new", "#ops"} {
			if join := await(t, peer, "FJOIN"); join.Params[0] != want {
				t.Errorf("joined %q, want %q", join.Params[0], want)
			}
		}
		await(t, peer, "ENDBURST")
	})
	t.Run("yields the nick of the gateway's user to whoever is at home there", func(t *testing.T) {
		_, peer := linked(t, func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) { peer.Users = []string{"baton", "alice"} })
		want := "Baton_" + home.DID().Hash()[:4]
		if got := await(t, peer, "UID").Params[2]; got != want {
			t.Errorf("nick %q, want %q", got, want)
		}
	})
	t.Run("comes back after a loss with the same users, ids and ages", func(t *testing.T) {
		h, peer := linked(t, nil)
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		before := [][]string{await(t, peer, "UID").Params, await(t, peer, "UID").Params}
		peer.Drop()
		after := [][]string{await(t, peer, "UID").Params, await(t, peer, "UID").Params}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("users (-before +after):\n%s", diff)
		}
	})
}

func TestNickCollisions(t *testing.T) {
	// agent is a link on which the scholar has spoken, with the id of its user.
	agent := func(t *testing.T) (house, *bridgetest.IRCd, string) {
		t.Helper()
		h, peer := linked(t, nil)
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "UID")
		return h, peer, await(t, peer, "UID").Params[0]
	}
	first := "scholar_" + scholar.Hash()[:4]
	t.Run("are given up to a new user", func(t *testing.T) {
		_, peer, uuid := agent(t)
		peer.Send(uid(t, "1AAAAAAAX", 1795226757, "Scholar"))
		if m := await(t, peer, "NICK"); m.Source != uuid || m.Params[0] != first {
			t.Errorf("%s NICK %q, want %q", m.Source, m.Params[0], first)
		}
	})
	t.Run("are given up to a user that changes to one, each time", func(t *testing.T) {
		_, peer, _ := agent(t)
		peer.Send(":" + peer.UUID("bob") + " NICK scholar 1795226757")
		peer.Send(":" + peer.UUID("alice") + " NICK " + first + " 1795226757")
		second := "scholar_" + scholar.Hash()[:5]
		if got := []string{await(t, peer, "NICK").Params[0], await(t, peer, "NICK").Params[0]}; !cmp.Equal(got, []string{first, second}) {
			t.Errorf("nicks %q", got)
		}
	})
	t.Run("are left when the network takes them", func(t *testing.T) {
		h, peer := linked(t, nil)
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "UID")
		user := await(t, peer, "UID")
		peer.Send(":1AA SAVE " + user.Params[0] + " 1") // of a nick it does not have any more
		peer.Send(":1AA SAVE " + user.Params[0] + " " + user.Params[1])
		if got := await(t, peer, "NICK").Params[0]; got != first {
			t.Errorf("nick %q, want %q", got, first)
		}
	})
	t.Run("are free again after a split, of servers behind servers too", func(t *testing.T) {
		h, peer := linked(t, nil)
		for _, line := range []string{
			":1AA SERVER b.example 2BB hidden=0 :b", ":2BB SERVER c.example 3CC hidden=0 :c",
			uid(t, "3CCAAAAAA", 1795226757, "scholar"), ":1AA SQUIT 2BB :split",
		} {
			peer.Send(line)
		}
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t) // everything read
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "UID")
		if got := await(t, peer, "UID").Params[2]; got != "scholar" {
			t.Errorf("nick %q", got)
		}
	})
}

func TestKilledUserComesBack(t *testing.T) {
	t.Run("comes back under a new id after a KILL, once the wait is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, peer, _ := piped(t)
			old := await(t, peer, "UID").Params[0]
			await(t, peer, "FJOIN")
			begun := time.Now()
			peer.Kill("alice", old)
			user := await(t, peer, "UID")
			if took := time.Since(begun); took != inspircd.FirstReturn {
				t.Errorf("came back after %v", took)
			}
			if user.Params[0] == old || user.Params[2] != "Baton" {
				t.Errorf("user %q, was %s", user.Params, old)
			}
			await(t, peer, "FJOIN")
		})
	})
	t.Run("comes back into a channel after a KICK, later each time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, peer, _ := piped(t)
			uuid := await(t, peer, "UID").Params[0]
			await(t, peer, "FJOIN")
			wait := inspircd.FirstReturn
			for range 2 {
				begun := time.Now()
				peer.Kick("alice", "#ops", uuid)
				await(t, peer, "FJOIN")
				if took := time.Since(begun); took != wait {
					t.Errorf("came back after %v, want %v", took, wait)
				}
				wait *= 2
			}
		})
	})
	t.Run("not by a KICK of the time before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, peer, _ := piped(t)
			uuid := await(t, peer, "UID").Params[0]
			first := await(t, peer, "FJOIN").Params[3]
			peer.Kick("alice", "#ops", uuid)
			await(t, peer, "FJOIN")
			_, membership, _ := strings.Cut(first, ":")
			peer.Send(":" + peer.UUID("alice") + " KICK #ops " + uuid + " " + membership + " :too late")
			peer.Send(":1AA RESYNC #ops")
			if again := await(t, peer, "FJOIN").Params[3]; !strings.Contains(again, uuid) {
				t.Errorf("in the channel is %q", again)
			}
		})
	})
	t.Run("comes back at once when it has something to say", func(t *testing.T) {
		h, peer := linked(t, nil)
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "UID")
		old := await(t, peer, "UID").Params[0]
		peer.Kill("alice", old)
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t) // the KILL was read
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		if again := await(t, peer, "UID"); again.Params[0] == old || again.Params[2] != "scholar" {
			t.Errorf("user %q, was %s", again.Params, old)
		}
	})
	t.Run("takes the age of a channel that was made again while it was out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, peer, _ := piped(t)
			uuid := await(t, peer, "UID").Params[0]
			await(t, peer, "FJOIN")
			peer.Kick("alice", "#ops", uuid)
			peer.Remake("#ops")
			await(t, peer, "FJOIN") // its age is checked by the peer
		})
	})
}

func TestSessionAnswersQueries(t *testing.T) {
	t.Run("PING with PONG, of a server further away too", func(t *testing.T) {
		_, err := scriptedLink(t, func(s script) {
			s.say(":1AA PING 9GW")
			if got := s.hear(); got != ":9GW PONG 1AA" {
				t.Errorf("got %q", got)
			}
		})
		if err == nil {
			t.Error("no error at the end")
		}
	})
	t.Run("IDLE, which a WHOIS waits for", func(t *testing.T) {
		_, peer := linked(t, nil)
		user := await(t, peer, "UID")
		peer.Say("alice", "IDLE "+user.Params[0])
		if got := await(t, peer, "IDLE").Params; got[0] != peer.UUID("alice") || got[1] != user.Params[len(user.Params)-3] {
			t.Errorf("got %q", got)
		}
	})
	t.Run("RESYNC with who is in the channel", func(t *testing.T) {
		_, peer := linked(t, nil)
		before := await(t, peer, "FJOIN")
		peer.Send(":1AA RESYNC #ops")
		if after := await(t, peer, "FJOIN"); after.Params[0] != before.Params[0] || after.Params[1] != before.Params[1] {
			t.Errorf("got %q, want %q", after.Params, before.Params)
		}
	})
	t.Run("nothing to what it does not know", func(t *testing.T) {
		h, peer := linked(t, nil)
		for _, line := range []string{
			"", ":1AA FTOPIC #ops 1 1 alice :topic", ":1AA SNONOTICE L :split", ":1AA FROBNICATE", ":1AA ENCAP * X :y",
			":1AA METADATA 9GWAAAAAA accountname :mallory", ":1AA FJOIN #other 5 +nt :", ":1AA RESYNC #other",
		} {
			peer.Send(line)
		}
		peer.Tagmsg("alice", "#ops", offerTags())
		h.gateway.next(t)
	})
}

func TestSessionEnds(t *testing.T) {
	t.Run("a peer that falls silent is given up, and what was in flight is owed still", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, peer, ended := piped(t)
			peer.HoldPongs(true)
			begun := time.Now()
			delivered := h.link.Deliver(t.Context(), acceptRow(t))
			if delivered == nil {
				t.Error("delivered without proof")
			}
			err := <-ended
			if took := time.Since(begun); took != inspircd.MaxSilence {
				t.Errorf("given up after %v", took)
			}
			if err == nil || !strings.Contains(err.Error(), "silent") {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("a link without anything to say lives on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, peer, _ := piped(t)
			time.Sleep(10 * inspircd.MaxSilence)
			peer.Tagmsg("alice", "#ops", offerTags())
			h.gateway.next(t)
		})
	})
	t.Run("a gateway that stops leaves the network first", func(t *testing.T) {
		peer := listen(t, peerConfig())
		h := newHouse(t, testConfig(peer.Addr()))
		stop := keepRunning(h, func() {})
		if err := peer.Linked(waiting(t)); err != nil {
			t.Fatal(err)
		}
		stop()
		if got := await(t, peer, "SQUIT").Params[0]; got != "9GW" {
			t.Errorf("left %q", got)
		}
	})
	t.Run("the longest silent pseudo-client leaves for a new one beyond the bound", func(t *testing.T) {
		h, peer := linked(t, nil)
		for i := range inspircd.MaxPseudos + 1 {
			d := acceptRow(t)
			d.Attempt = 1
			d.Entry.Event.From = federation.DID("did:key:z" + strings.Repeat("a", i/1000) + strings.Repeat("b", i%1000))
			if err := h.link.Deliver(waiting(t), d); err != nil {
				t.Fatal(err)
			}
		}
		await(t, peer, "UID")
		if oldest := await(t, peer, "UID").Params[0]; await(t, peer, "QUIT").Source != oldest {
			t.Errorf("another one than %s left", oldest)
		}
	})
}
