package inspircd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

// behind adds servers to the network, each behind the one before, each with a logged-in user in
// #ops.
func behind(t *testing.T, peer *bridgetest.IRCd) {
	t.Helper()
	for before, sid := "1AA", serversBehind(); len(sid) > 0; before, sid = sid[0], sid[1:] {
		uuid := sid[0] + "AAAAAA"
		for _, line := range []string{
			fmt.Sprintf(":%s SERVER %s.example %s burst=1795226757000 hidden=0 :far", before, strings.ToLower(sid[0]), sid[0]),
			fmt.Sprintf(":%s SINFO version :x", sid[0]),
			uid(t, uuid, 1795226757, "user"+sid[0]),
			fmt.Sprintf(":1AA METADATA %s accountname :account%s", uuid, sid[0]),
			fmt.Sprintf(":%s FJOIN #ops %d +nt :,%s:5", sid[0], peer.Age("#ops"), uuid),
			fmt.Sprintf(":%s ENDBURST ", sid[0]),
		} {
			peer.Send(line)
		}
	}
	settle(t, peer)
}

func serversBehind() []string { return []string{"2BB", "3CC", "4DD"} }

// online returns the accounts of the users behind that are online.
func online(t *testing.T, h house) string {
	t.Helper()
	var there []string
	for i, sid := range serversBehind() {
		did := federation.DID(fmt.Sprintf("did:web:user%d.example", i))
		h.gateway.bind("account"+sid, did, false)
		if h.link.Online(waiting(t), federation.Binding{DID: did}) {
			there = append(there, sid)
		}
	}
	return strings.Join(there, " ")
}

func TestSplitRemovesEverythingBehindAServer(t *testing.T) {
	h, peer := linked(t, nil)
	behind(t, peer)
	if got := online(t, h); got != "2BB 3CC 4DD" {
		t.Fatalf("online: %q", got)
	}
	mode(t, peer, "#ops", "+nl 8") // alice, bob, three behind, Baton, the scholar: one more has room
	for _, split := range []struct{ line, left string }{
		{":1AA SQUIT 9ZZ :unknown", "2BB 3CC 4DD"},
		{":3CC SQUIT 4DD :Connection closed", "2BB 3CC"},
		{":1AA SQUIT 2BB :Connection closed", ""},
	} {
		peer.Send(split.line)
		settle(t, peer)
		if got := online(t, h); got != split.left {
			t.Errorf("after %s online: %q, want %q", split.line, got, split.left)
		}
	}
	mode(t, peer, "#ops", "+l 4") // alice, bob and Baton are there, so that the users behind are gone from the channel
	if why := policy(t, h); why != "" {
		t.Errorf("refused: %s", why)
	}
	peer.Send(":3CCAAAAAA QUIT :a user that is gone")
	peer.Send(uid(t, "3CCAAAAAB", 1795226757, "ghost")) // of a split server
	behind(t, peer)                                     // the servers come back with the same ids
	if got := online(t, h); got != "2BB 3CC 4DD" {
		t.Errorf("after the rejoin online: %q", got)
	}
}

func TestSplitOfTheLinkKeepsUsersAndChannelAges(t *testing.T) {
	h, peer := linked(t, nil)
	if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
		t.Fatal(err)
	}
	introduced := func() string {
		var lines []string
		for range 2 {
			uid := await(t, peer, "UID").Params
			join := await(t, peer, "FJOIN", func(m bridgetest.IRCMessage) bool { return strings.Contains(m.Params[3], uid[0]) })
			lines = append(lines, strings.Join(uid, " ")+" in "+strings.Join(join.Params[:2], " "))
		}
		return strings.Join(lines, "\n")
	}
	before := introduced()
	peer.Drop() // without SQUIT or ERROR, as InspIRCd does it
	if after := introduced(); after != before {
		t.Errorf("came back as\n%s\nwas\n%s", after, before)
	}
}

// The recorded collisions: the network says which user loses its nick, and ours give way.
func TestNickCollisionsEndWithOneOwner(t *testing.T) {
	const theirs = "1AAAAAAAX"
	newer := ":1AA SAVE %[1]s %[2]s"
	older := []string{":1AA SAVE " + theirs + " %[3]d", ":" + theirs + " NICK " + theirs + " 100"}
	tests := []struct {
		name    string
		age     int64 // of their nick, more than that of ours
		arbiter []string
	}{
		{"ours is newer", -10, []string{newer}},
		{"ours is older", 10, older},
		{"same user name and address, ours is newer", -10, older},
		{"same user name and address, ours is older", 10, []string{newer}},
		{"both are as old", 0, append([]string{newer}, older...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, peer, user := afterAStep(t)
			var ours int64
			if _, err := fmt.Sscan(user[1], &ours); err != nil {
				t.Fatal(err)
			}
			peer.Send(uid(t, theirs, ours+tt.age, "scholar"))
			for _, line := range tt.arbiter {
				line = strings.NewReplacer("%[1]s", user[0], "%[2]s", user[1], "%[3]d", fmt.Sprint(ours+tt.age)).Replace(line)
				peer.Send(line)
			}
			settle(t, peer)
			if nick := await(t, peer, "NICK"); nick.Source != user[0] || nick.Params[0] == "scholar" {
				t.Errorf("%s NICK %q", nick.Source, nick.Params)
			}
			d := acceptRow(t)
			d.Attempt = 1
			if err := h.link.Deliver(waiting(t), d); err != nil {
				t.Fatal(err)
			}
			if step := await(t, peer, "TAGMSG"); step.Source != user[0] {
				t.Errorf("spoken by %s", step.Source)
			}
			if n := countOf(peer, "KILL"); n != 0 {
				t.Errorf("%d killed", n)
			}
		})
	}
}

// A burst of many users in many channels, both ways, with the bounds of the link.
func TestBurstOfManyUsersAndChannels(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol int) {
		t.Helper()
		const users, channels = 500, 50
		h, peer := linked(t, func(cfg *inspircd.Config, peer *bridgetest.IRCdConfig) {
			peer.Protocol, peer.Channels, cfg.Channels = protocol, nil, nil
			for i := range channels {
				peer.Channels = append(peer.Channels, fmt.Sprintf("#c%d", i))
			}
			peer.Users = []string{"alice"}
			for i := range users {
				peer.Users = append(peer.Users, fmt.Sprintf("user%d", i))
			}
			cfg.Channels = peer.Channels
		})
		for _, user := range []string{"alice", "user0", fmt.Sprintf("user%d", users-1)} {
			peer.Tagmsg(user, "#c49", offerTags())
			if ev := h.gateway.next(t); ev.Arrival.Name != user || ev.Venue != "#c49" {
				t.Errorf("arrival %+v", ev.Arrival)
			}
		}
		for i := range users { // each becomes a user of the gateway
			d := acceptRow(t)
			d.Attempt, d.View.Venue = 1, fmt.Sprintf("#c%d", i%channels)
			d.Entry.Event.Venue = d.View.Venue
			d.Entry.Event.From = federation.DID(fmt.Sprintf("did:web:agent%d.example", i))
			if err := h.link.Deliver(waiting(t), d); err != nil {
				t.Fatal(err)
			}
		}
		peer.Drop()
		joined := 0
		for range 2 { // in the first session and in the second
			for range users + 1 {
				await(t, peer, "UID")
			}
			for range users + channels {
				await(t, peer, "FJOIN")
				joined++
			}
		}
		if extra := countOf(peer, "UID") + countOf(peer, "FJOIN"); extra != 0 {
			t.Errorf("%d lines more than %d joins", extra, joined)
		}
	})
}
