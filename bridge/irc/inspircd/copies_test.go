package inspircd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
)

// offererHere makes alice a party of this network, by her nick.
func offererHere(t *testing.T, configure func(*inspircd.Config, *bridgetest.IRCdConfig)) (house, *bridgetest.IRCd) {
	t.Helper()
	h, peer := linked(t, configure)
	h.gateway.links = map[federation.DID]string{alice: linkName}
	return h, peer
}

// without waits until a user has left the channel.
func without(t *testing.T, h house, peer *bridgetest.IRCd, nick string) {
	t.Helper()
	peer.Leave(nick, "#ops")
	peer.Connect("after-" + nick)
	awaitOnline(t, h, federation.Binding{DID: carol, Name: "after-" + nick}, true)
}

// absent delivers a row to an absent reader, and returns the row for the next attempt.
func absent(t *testing.T, h house, d federation.Delivery) federation.Delivery {
	t.Helper()
	err := h.link.Deliver(waiting(t), d)
	if _, ok := errors.AsType[*delivery.AbsentError](err); !ok {
		t.Fatalf("deliver: %v, want that a reader is away\n%s", err, h.log)
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
		t.Errorf("error %v is no not-now", err)
	}
	d.Attempt, d.Personal = d.Attempt+1, true
	return d
}

// messagesTo returns the commands of the handoff messages to a target.
func messagesTo(peer *bridgetest.IRCd, target string) (commands []string) {
	for _, m := range peer.Received() {
		if (m.Command == "TAGMSG" || m.Command == "NOTICE") && m.Params[0] == target {
			commands = append(commands, m.Command)
		}
	}
	return commands
}

func TestCopyOfAChannelStepIsRecognized(t *testing.T) {
	both := []string{"TAGMSG", "NOTICE"}
	t.Run("is signed for the place where it is read", func(t *testing.T) {
		h, peer := offererHere(t, nil)
		without(t, h, peer, "alice")
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, h.log)
		}
		toAlice := func(m bridgetest.IRCMessage) bool { return m.Params[0] == peer.UUID("alice") }
		step := await(t, peer, "TAGMSG", toAlice)
		if step.Nick != "scholar" || step.Tags["msgid"] != acceptID || step.Tags["+freeq.at/handoff-for"] != string(scholar) ||
			step.Tags["+freeq.at/handoff-id"] != offerID || step.Tags["+freeq.at/sig"] == "ed25519:kid:BBBB" {
			t.Errorf("%s said %v", step.Nick, step.Tags)
		}
		line := await(t, peer, "NOTICE", toAlice)
		if want := "[handoff …00000H] scholar accepts: Cite the 3 best sources; on X"; line.Params[1] != want {
			t.Errorf("line %q, want %q", line.Params[1], want)
		}
	})
	t.Run("of one who sent it here comes from the gateway's user", func(t *testing.T) {
		h, peer := offererHere(t, nil)
		without(t, h, peer, "alice")
		d := acceptRow(t)
		d.Entry.Event.Arrival.Link = linkName
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		step := await(t, peer, "TAGMSG")
		if step.Nick != "Baton" || step.Params[0] != peer.UUID("alice") {
			t.Errorf("%s said it to %q", step.Nick, step.Params)
		}
		if n := countOf(peer, "TAGMSG"); n != 0 {
			t.Errorf("%d more steps, and the channel has it", n)
		}
	})
	t.Run("is for each party that has not had it, and for no other", func(t *testing.T) {
		h, peer := offererHere(t, nil)
		h.gateway.bind("sch", scholar, true)
		h.gateway.links[scholar] = linkName
		d := acceptRow(t)
		ev := &d.Entry.Event
		ev.Verb, ev.From, ev.Fields["handoff"], ev.Arrival = federation.Expire, home.DID(), "expire", federation.Arrival{Network: "home", Link: "home"}
		again := absent(t, h, d) // alice has read it
		again = absent(t, h, again)
		peer.Connect("sigrid")
		peer.Send(":1AA METADATA " + peer.UUID("sigrid") + " accountname :sch")
		awaitOnline(t, h, federation.Binding{DID: scholar}, true)
		if err := h.link.Deliver(waiting(t), again); err != nil {
			t.Fatal(err)
		}
		for target, want := range map[string][]string{"#ops": both, peer.UUID("sigrid"): both, peer.UUID("alice"): nil} {
			if got := messagesTo(peer, target); !cmp.Equal(got, want) {
				t.Errorf("%s reads %q, want %q", target, got, want)
			}
		}
	})
	t.Run("is a line without message tags", func(t *testing.T) {
		h, peer := offererHere(t, tagless)
		without(t, h, peer, "alice")
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		if got := messagesTo(peer, peer.UUID("alice")); !cmp.Equal(got, []string{"NOTICE"}) {
			t.Errorf("alice reads %q", got)
		}
	})
	t.Run("is written again to a party that left before it was read", func(t *testing.T) {
		h, peer := offererHere(t, nil)
		peer.HoldPongs(true)
		delivered := make(chan error, 1)
		d := acceptRow(t)
		go func() { delivered <- h.link.Deliver(context.Background(), d) }()
		await(t, peer, "TAGMSG")
		peer.Quit("alice")
		peer.HoldPongs(false)
		if _, ok := errors.AsType[*delivery.AbsentError](<-delivered); !ok {
			t.Fatal("delivered")
		}
		peer.Connect("alice")
		awaitOnline(t, h, federation.Binding{DID: alice, Name: "alice"}, true)
		d.Attempt, d.Personal = 1, true
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		if got := messagesTo(peer, peer.UUID("alice")); !cmp.Equal(got, both) {
			t.Errorf("alice reads %q", got)
		}
	})
	t.Run("is not owed for a receipt", func(t *testing.T) {
		h, peer := offererHere(t, nil)
		peer.Quit("alice")
		awaitOnline(t, h, federation.Binding{DID: alice, Name: "alice"}, false)
		d := acceptRow(t)
		d.Entry.Version = 0
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("is answered in private", func(t *testing.T) {
		h, peer := withScholar(t)
		h.gateway.views = map[federation.HandoffID]federation.View{mustID(t, offerID): acceptRow(t).View}
		without(t, h, peer, "alice")
		tags := offerTags()
		tags["+freeq.at/handoff"], tags["+freeq.at/eventid"] = "cancel", acceptID
		peer.Tagmsg("alice", "scholar", tags)
		ev := h.gateway.next(t)
		if want := (federation.ChannelRef{Venue: "#ops"}); ev.Arrival.Place != want || ev.Venue != federation.PrivateVenue(alice, scholar) {
			t.Errorf("the step is signed for %q and belongs to %+v, want %+v", ev.Venue, ev.Arrival.Place, want)
		}
	})
	t.Run("of an offer to anyone that is taken is refused if nobody saw it", func(t *testing.T) {
		h, peer := linked(t, nil)
		for _, nick := range []string{"alice", "bob"} {
			peer.Quit(nick)
			awaitOnline(t, h, federation.Binding{DID: carol, Name: nick}, false)
		}
		d := acceptRow(t)
		ev := &d.Entry.Event
		ev.ID, ev.Verb, ev.Title, ev.Fields["handoff"] = ev.Handoff, federation.Offer, "Cite", "offer"
		d.View.Offerer, d.View.Offeree, d.View.Assignee, d.View.State, d.Entry.Version = scholar, "", "", federation.Open, 1
		again := absent(t, h, d)
		again.View.State = federation.Assigned
		err := h.link.Deliver(waiting(t), again)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InvalidTarget {
			t.Errorf("error %v", err)
		}
	})
}
