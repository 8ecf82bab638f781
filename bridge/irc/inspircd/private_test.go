package inspircd_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

const carol = federation.DID("did:key:z6Mkg49NtQR2LyYRDCQFK4w1VVHqhypZSSRo7HsyuN7SV7v5")

// privateView is the handoff that alice offered the scholar in private, here.
func privateView(t *testing.T) federation.View {
	t.Helper()
	return federation.View{
		ID: mustID(t, offerID), Version: 1, Dialect: federation.HandoffTags, State: federation.Offered, Title: "Cite",
		Venue: federation.PrivateVenue(alice, scholar), Link: linkName, Offerer: alice, Offeree: scholar,
	}
}

// privateRow is acceptRow in private.
func privateRow(t *testing.T) federation.Delivery {
	t.Helper()
	d := acceptRow(t)
	d.View = privateView(t)
	d.Entry.Event.Venue = d.View.Venue
	return d
}

// withScholar is linked, and the scholar has spoken in the channel, so that there is
// a user of that nick.
func withScholar(t *testing.T) (house, *bridgetest.IRCd) {
	t.Helper()
	h, peer := linked(t, nil)
	if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil {
		t.Fatalf("deliver: %v\n%s", err, h.log)
	}
	await(t, peer, "TAGMSG")
	await(t, peer, "NOTICE")
	return h, peer
}

func TestPrivateStepsAreRead(t *testing.T) {
	for _, target := range []string{"Baton", "scholar"} {
		t.Run("to "+target+", in the venue of signer and recipient", func(t *testing.T) {
			h, peer := withScholar(t)
			peer.Tagmsg("alice", target, offerTags())
			if got, want := h.gateway.next(t).Venue, federation.PrivateVenue(alice, scholar); got != want {
				t.Errorf("venue %q, want %q", got, want)
			}
		})
	}
	t.Run("to Baton, for anyone, in the venue of signer and gateway", func(t *testing.T) {
		h, peer := linked(t, nil)
		tags := offerTags()
		delete(tags, "+freeq.at/handoff-to")
		peer.Tagmsg("alice", "Baton", tags)
		if got, want := h.gateway.next(t).Venue, federation.PrivateVenue(alice, home.DID()); got != want {
			t.Errorf("venue %q, want %q", got, want)
		}
	})
	t.Run("not to somebody else's user", func(t *testing.T) {
		h, peer := withScholar(t)
		tags := offerTags()
		tags["+freeq.at/handoff-to"] = string(carol)
		peer.Tagmsg("alice", "scholar", tags)
		if got := await(t, peer, "NOTICE").Params[1]; !strings.HasPrefix(got, "INVALID_TARGET "+offerID+" ") {
			t.Errorf("notice %q", got)
		}
		if n := strings.Count(h.log.String(), "step refused"); n != 1 {
			t.Errorf("told the log %d times", n)
		}
	})
	t.Run("not of a handoff that nobody knows", func(t *testing.T) {
		_, peer := linked(t, nil)
		tags := offerTags()
		tags["+freeq.at/handoff"], tags["+freeq.at/eventid"] = "cancel", acceptID
		peer.Tagmsg("alice", "Baton", tags)
		if got := await(t, peer, "NOTICE").Params[1]; !strings.HasPrefix(got, "UNKNOWN_HANDOFF "+acceptID+" ") {
			t.Errorf("notice %q", got)
		}
	})
	t.Run("and a refusal goes to whoever sent it", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.answer = func(_ context.Context, ev federation.Event) error {
			return federation.Refuse(ev, federation.WrongSender, "")
		}
		peer.Tagmsg("bob", "Baton", offerTags())
		if got := await(t, peer, "NOTICE").Params[0]; got != peer.UUID("bob") {
			t.Errorf("told %q", got)
		}
	})
	t.Run("and a message with unreadable tags is answered", func(t *testing.T) {
		_, peer := linked(t, nil)
		peer.Send("@+freeq.at/handoff=\xff :" + peer.UUID("alice") + " TAGMSG " + await(t, peer, "UID").Params[0])
		if got := await(t, peer, "NOTICE").Params[1]; got != "INVALID_TAG * the tags could not be read" {
			t.Errorf("notice %q", got)
		}
	})
}

func TestPrivateStepsAreWritten(t *testing.T) {
	t.Run("to the user alone, from the user of whoever took it, with a line beside it and without a channel", func(t *testing.T) {
		h, peer := linked(t, nil)
		if err := h.link.Deliver(waiting(t), privateRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, h.log)
		}
		step := await(t, peer, "TAGMSG")
		if step.Nick != "scholar" || !cmp.Equal(step.Params, []string{peer.UUID("alice")}) || step.Tags["msgid"] != acceptID {
			t.Errorf("%s said %q with %v", step.Nick, step.Params, step.Tags)
		}
		line := await(t, peer, "NOTICE")
		want := []string{peer.UUID("alice"), "[handoff …00000H] scholar accepts: Cite"}
		if line.Nick != "scholar" || !cmp.Equal(line.Params, want) || line.Tags["+freeq.at/ref"] != offerID {
			t.Errorf("%s said %q with %v", line.Nick, line.Params, line.Tags)
		}
		if joins := countOf(peer, "FJOIN"); joins != 1 {
			t.Errorf("%d users in channels, want the gateway's alone", joins)
		}
	})
	t.Run("not to a user with the nick of somebody who is on another link", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.links = map[federation.DID]string{alice: "freeq"}
		err := h.link.Deliver(waiting(t), privateRow(t))
		if _, later := errors.AsType[*federation.UnavailableError](err); !later {
			t.Errorf("deliver: %v, want not now", err)
		}
		if n := countOf(peer, "TAGMSG"); n != 0 {
			t.Errorf("%d steps are said", n)
		}
	})
	t.Run("to the user that signed last, under any nick", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.Tagmsg("bob", "#ops", offerTags()) // it is alice's key
		h.gateway.next(t)
		awaitOnline(t, h, federation.Binding{DID: alice}, true)
		peer.Rename("bob", "bobby")
		if err := h.link.Deliver(waiting(t), privateRow(t)); err != nil {
			t.Fatal(err)
		}
		if got := await(t, peer, "TAGMSG").Params[0]; got != peer.UUID("bobby") {
			t.Errorf("said to %q", got)
		}
	})
	t.Run("of the home, from the gateway's user", func(t *testing.T) {
		h, peer := linked(t, nil)
		for version, verb := range []federation.Verb{federation.Confirm, federation.Expire} {
			d := privateRow(t)
			d.Entry.Version = federation.Version(version * 3) // a receipt is in no log
			ev := &d.Entry.Event
			ev.Verb, ev.From, ev.Arrival = verb, home.DID(), federation.Arrival{Network: "home", Link: "home"}
			ev.Fields["handoff"] = string(verb)
			if err := h.link.Deliver(waiting(t), d); err != nil {
				t.Fatal(err)
			}
			step := await(t, peer, "TAGMSG")
			if step.Nick != "Baton" || step.Params[0] != peer.UUID("alice") || step.Tags["+freeq.at/handoff"] != string(verb) {
				t.Errorf("%s said %q with %v", step.Nick, step.Params, step.Tags)
			}
		}
	})
	t.Run("and wait while the user is away", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.Quit("alice")
		awaitOnline(t, h, federation.Binding{DID: alice, Name: "alice"}, false)
		err := h.link.Deliver(waiting(t), privateRow(t))
		if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
			t.Errorf("error %v", err)
		}
		peer.Connect("alice")
		awaitOnline(t, h, federation.Binding{DID: alice, Name: "alice"}, true)
		if err := h.link.Deliver(waiting(t), privateRow(t)); err != nil {
			t.Errorf("error %v", err)
		}
	})
	t.Run("and are not delivered to a user that left before they were read", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.HoldPongs(true)
		delivered := make(chan error, 1)
		go func() { delivered <- h.link.Deliver(context.Background(), privateRow(t)) }()
		await(t, peer, "TAGMSG")
		peer.Quit("alice")
		peer.HoldPongs(false)
		if _, ok := errors.AsType[*federation.UnavailableError](<-delivered); !ok {
			t.Error("delivered")
		}
	})
	t.Run("never to the channel, on another link", func(t *testing.T) {
		h, _ := linked(t, nil)
		d := privateRow(t)
		d.View.Link = "other"
		err := h.link.Deliver(waiting(t), d)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InvalidTarget {
			t.Errorf("error %v", err)
		}
	})
	t.Run("to another user of this network, of one who sent it to the gateway", func(t *testing.T) {
		h, peer := linked(t, nil)
		tags := offerTags()
		tags["+freeq.at/handoff-from"] = string(scholar)
		peer.Tagmsg("bob", "#ops", tags) // bob is the scholar
		h.gateway.next(t)
		awaitOnline(t, h, federation.Binding{DID: scholar}, true)
		d := privateRow(t)
		d.Entry.Event.From, d.Entry.Event.Arrival.Link = alice, linkName
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		if step := await(t, peer, "TAGMSG"); step.Nick != "Baton" || step.Params[0] != peer.UUID("bob") {
			t.Errorf("%s said %q", step.Nick, step.Params)
		}
	})
	t.Run("to nobody by the nick alone, of one who sent it here", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.names[scholar] = "bob"
		d := privateRow(t)
		d.Entry.Event.From, d.Entry.Event.Arrival.Link = alice, linkName
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		if n := countOf(peer, "TAGMSG"); n != 0 {
			t.Errorf("%d TAGMSG", n)
		}
	})
}

func TestPrivateLineNamesTheCommand(t *testing.T) {
	const answers = " — answer: /msg Baton accept 00000H or /msg Baton decline 00000H"
	for name, retired := range map[string]int{"at first": 0, "after an attempt that reached nobody": 3} {
		t.Run(name, func(t *testing.T) {
			h, peer := linked(t, nil)
			d := privateOffer(t)
			d.Attempt = retired
			if err := h.link.Deliver(waiting(t), d); err != nil {
				t.Fatalf("deliver: %v\n%s", err, h.log)
			}
			if got, want := await(t, peer, "NOTICE").Params[1], "[handoff …00000H] scholar offers alice: Cite"+answers; got != want {
				t.Errorf("line %q, want %q", got, want)
			}
		})
	}
	t.Run("to the gateway's user under the nick that it has", func(t *testing.T) {
		h, peer := linked(t, func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) { peer.Users = []string{"alice", "Baton"} })
		if err := h.link.Deliver(waiting(t), privateOffer(t)); err != nil {
			t.Fatal(err)
		}
		self := await(t, peer, "UID").Params[2]
		if got := await(t, peer, "NOTICE").Params[1]; self == "Baton" || !strings.Contains(got, "/msg "+self+" accept 00000H") {
			t.Errorf("line %q, the gateway's user is %q", got, self)
		}
	})
	t.Run("also without lines in channels", func(t *testing.T) {
		h, peer := linked(t, func(cfg *inspircd.Config, _ *bridgetest.IRCdConfig) { cfg.Summaries = false })
		if err := h.link.Deliver(waiting(t), privateOffer(t)); err != nil {
			t.Fatal(err)
		}
		await(t, peer, "NOTICE")
	})
	t.Run("to a user with a bound account, of one who sent it here", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.bind("al", alice, true)
		peer.Send(":1AA METADATA " + peer.UUID("bob") + " accountname :al") // bob is alice
		awaitOnline(t, h, federation.Binding{DID: alice}, true)
		d := privateOffer(t)
		d.Entry.Event.Arrival.Link = linkName
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatal(err)
		}
		if line := await(t, peer, "NOTICE"); line.Nick != "Baton" || line.Params[0] != peer.UUID("bob") || !strings.HasSuffix(line.Params[1], answers) {
			t.Errorf("%s said %q", line.Nick, line.Params)
		}
	})
}

func TestPrivateStepWaitsForItsRecipient(t *testing.T) {
	for name, here := range map[string]func(h house){
		"whose account is bound here": func(h house) { h.gateway.bind("al", alice, true) },
		"that signed here last":       func(h house) { h.gateway.links = map[federation.DID]string{alice: linkName} },
	} {
		t.Run(name, func(t *testing.T) {
			h, peer := linked(t, nil)
			here(h)
			d := privateOffer(t)
			d.Entry.Event.Arrival.Link = linkName
			err := h.link.Deliver(waiting(t), d)
			if _, later := errors.AsType[*federation.UnavailableError](err); !later {
				t.Errorf("deliver: %v, want not now", err)
			}
			if n := countOf(peer, "TAGMSG") + countOf(peer, "NOTICE"); n != 0 {
				t.Errorf("%d messages", n)
			}
		})
	}
}

// privateOffer is an offer of the scholar to alice in private.
func privateOffer(t *testing.T) federation.Delivery {
	t.Helper()
	d := privateRow(t)
	d.View.Offerer, d.View.Offeree, d.View.Assignee = scholar, alice, ""
	d.Entry.Version = 1
	ev := &d.Entry.Event
	ev.ID, ev.Verb, ev.To, ev.Title = ev.Handoff, federation.Offer, alice, "Cite"
	ev.Fields = map[string]string{
		"handoff": "offer", "handoff-id": offerID, "handoff-from": string(scholar), "handoff-to": string(alice), "handoff-task": "Cite",
	}
	return d
}

// awaitOnline waits until a user is online, or offline.
func awaitOnline(t *testing.T, h house, b federation.Binding, want bool) {
	t.Helper()
	for ctx := waiting(t); h.link.Online(ctx, b) != want; {
		if ctx.Err() != nil {
			t.Fatalf("%s online: %v", b.DID, !want)
		}
	}
}

func TestOnlineFollowsConnectedUsers(t *testing.T) {
	t.Run("nobody is, without a connection", func(t *testing.T) {
		h := newHouse(t, testConfig("127.0.0.1:1"))
		if h.link.Online(t.Context(), federation.Binding{DID: alice, Name: "alice"}) {
			t.Error("alice is")
		}
	})
	t.Run("a user with the nick is, and one with a pseudo-client's is not", func(t *testing.T) {
		h, _ := withScholar(t)
		for nick, want := range map[string]bool{"ALICE": true, "carol": false, "scholar": false, "": false} {
			if got := h.link.Online(t.Context(), federation.Binding{DID: carol, Name: nick}); got != want {
				t.Errorf("%q online: %v", nick, got)
			}
		}
	})
	t.Run("whoever repeats a step is not its signer", func(t *testing.T) {
		h, peer := linked(t, nil)
		h.gateway.duplicates = true
		peer.Tagmsg("bob", "#ops", offerTags())
		h.gateway.next(t)
		peer.Tagmsg("bob", "#ops", offerTags())
		h.gateway.next(t) // the judge is past the first
		if h.link.Online(t.Context(), federation.Binding{DID: alice}) {
			t.Error("bob counts as alice")
		}
	})
	t.Run("a signer is until it quits, and then another may be", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.Tagmsg("alice", "#ops", offerTags())
		awaitOnline(t, h, federation.Binding{DID: alice}, true)
		peer.Tagmsg("bob", "#ops", offerTags())
		h.gateway.next(t)
		h.gateway.next(t)
		tags := offerTags()
		tags["+freeq.at/handoff-from"] = string(scholar)
		peer.Tagmsg("bob", "#ops", tags) // a user stands for one DID
		awaitOnline(t, h, federation.Binding{DID: scholar}, true)
		awaitOnline(t, h, federation.Binding{DID: alice}, false)
		peer.Quit("bob")
		awaitOnline(t, h, federation.Binding{DID: scholar}, false)
	})
	t.Run("a split takes signers along", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.Send(":1AA SERVER b.example 2BB hidden=0 :b")
		peer.Send(uid(t, "2BBAAAAAA", 1795226757, "dave"))
		awaitOnline(t, h, federation.Binding{Name: "dave"}, true)
		peer.Send(":1AA SQUIT 2BB :split")
		awaitOnline(t, h, federation.Binding{Name: "dave"}, false)
	})
}
