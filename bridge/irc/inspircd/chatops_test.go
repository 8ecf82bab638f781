package inspircd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// visited is linked to a server on which alice, scholar and bob may write to Baton: the gateway
// vouches for the account of the first, knows that of the second, and not the third.
func visited(t *testing.T, limits ...bridge.Limits) (house, *bridgetest.IRCd) {
	t.Helper()
	h, peer := linked(t, func(_ *inspircd.Config, cfg *bridgetest.IRCdConfig) {
		cfg.Users = []string{"alice", "bob", "scholar"}
	}, func(p *bridge.Ports) {
		for _, l := range limits {
			p.Limits = l
		}
	})
	h.gateway.bind("AliceAcct", person, true)
	h.gateway.bind("ScholarAcct", scholar, false)
	logIn(peer, "alice", "AliceAcct")
	logIn(peer, "scholar", "ScholarAcct")
	return h, peer
}

// answered says something to Baton and returns the next line that it answers.
func answered(t *testing.T, peer *bridgetest.IRCd, nick, text string) string {
	t.Helper()
	peer.Say(nick, "PRIVMSG Baton :"+text)
	visitor := peer.UUID(nick)
	m, err := peer.Next(waiting(t), func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Nick == "Baton" && m.Params[0] == visitor
	})
	if err != nil {
		t.Fatal(err)
	}
	return m.Params[1]
}

// assigned makes a handoff known that the scholar offered alice.
func assigned(t *testing.T, h house) federation.View {
	t.Helper()
	view := privateView(t)
	view.Kind, view.Venue = federation.Handoff, "#ops"
	view.Offerer, view.Offeree = scholar, person
	h.gateway.views = map[federation.HandoffID]federation.View{view.ID: view}
	offer := federation.Event{ID: view.ID, Handoff: view.ID, Verb: federation.Offer, From: scholar, To: person}
	if _, err := h.record.Append(t.Context(), federation.Filing{Event: offer, View: view, Filed: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return view
}

func TestChatOpsRunsCommands(t *testing.T) {
	t.Run("for an account that the gateway vouches for, with the line as evidence", func(t *testing.T) {
		h, peer := visited(t)
		view := assigned(t, h)
		answer := answered(t, peer, "alice", "accept …"+strings.ToLower(view.ID.Short()))
		ev := h.gateway.next(t)
		if ev.Verb != federation.Accept || ev.Provenance != federation.Vouched || ev.Actor() != person || ev.Venue != "#ops" {
			t.Errorf("filed is %+v", ev)
		}
		if got := string(ev.Evidence.Bytes); !strings.Contains(got, "PRIVMSG Baton :accept") || ev.Arrival.Link != linkName || ev.Arrival.Name != "alice" {
			t.Errorf("arrived %+v with %s", ev.Arrival, got)
		}
		if want := "[handoff …" + view.ID.Short() + "] accept"; !strings.HasPrefix(answer, want) {
			t.Errorf("answered %q, want %q", answer, want)
		}
	})
	t.Run("a pairing code for that account, and for no other", func(t *testing.T) {
		h, peer := visited(t)
		answer := answered(t, peer, "alice", "pair")
		rest, _ := strings.CutPrefix(answer, "Your pairing code is ")
		code, _, _ := strings.Cut(rest, ".")
		paired, err := h.record.SpendPairing(t.Context(), federation.DigestLoginCode(federation.PairingCode, code), time.Now())
		if err != nil || paired.DID != person {
			t.Errorf("%q has the code of %+v, %v", answer, paired, err)
		}
		for nick, want := range map[string]string{"scholar": "NEED_SIGNATURE", "bob": "A pairing code needs an account"} {
			if got := answered(t, peer, nick, "pair"); !strings.HasPrefix(got, want) {
				t.Errorf("%s is answered %q, want %q", nick, got, want)
			}
		}
	})
	t.Run("an account is bound to the DID of a pairing code", func(t *testing.T) {
		h, peer := visited(t)
		code, _, err := credential.NewPairing(t.Context(), h.record.Participants, scholar, "", true, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ nick, text, want string }{
			{"bob", "bind " + code, "Log in to an account first"},
			{"alice", "bind " + code, "Your account is bound to " + string(person) + " already."},
			{"scholar", "bind " + code, "The operator bound your account"},
		} {
			if got := answered(t, peer, tt.nick, tt.text); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s, who says %q, is answered %q", tt.nick, tt.text, got)
			}
		}
		logIn(peer, "bob", "BobAcct")
		for _, tt := range []struct{ text, want string }{
			{"bind", "Say: bind CODE."},
			{"bind AAAA-AAAA", "That code is wrong"},
			{"bind " + code, "Your account is bound to " + string(scholar) + "."},
		} {
			if got := answered(t, peer, "bob", tt.text); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q is answered %q", tt.text, got)
			}
		}
		if bound, err := h.record.BoundName(t.Context(), linkName, "BobAcct"); bound.DID != scholar || !bound.Vouch || err != nil {
			t.Errorf("the account is bound to %+v, %v", bound, err)
		}
	})
	t.Run("open offers are listed", func(t *testing.T) {
		h, peer := visited(t)
		if got := answered(t, peer, "bob", "open"); got != "No offer is open." {
			t.Errorf("without any, bob is answered %q", got)
		}
		view := assigned(t, h)
		view.ID, view.State, view.Offeree, view.Title, view.Moved = federationtest.ID(77), federation.Open, "", "Cite three sources", time.Now()
		offer := federation.Event{ID: view.ID, Handoff: view.ID, Verb: federation.Offer, From: scholar, Signature: federation.Signature{Document: "open"}}
		if _, err := h.record.Append(t.Context(), federation.Filing{Event: offer, View: view, Filed: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if got := answered(t, peer, "bob", "open"); !strings.HasSuffix(got, "open, from scholar to anyone: Cite three sources") {
			t.Errorf("bob is answered %q", got)
		}
	})
	t.Run("for nobody else", func(t *testing.T) {
		h, peer := visited(t)
		view := assigned(t, h)
		for nick, want := range map[string]string{"scholar": "NEED_SIGNATURE", "bob": "Steps need an account that is bound to a DID."} {
			if got := answered(t, peer, nick, "cancel "+view.ID.String()); !strings.HasPrefix(got, want) {
				t.Errorf("%s is answered %q, want %q", nick, got, want)
			}
		}
		if got := answered(t, peer, "bob", "show "+view.ID.String()); !strings.Contains(got, "from scholar to") {
			t.Errorf("anybody is shown %q", got)
		}
	})
	t.Run("in the order in which it was said, and answered to nobody who left", func(t *testing.T) {
		h, peer := visited(t)
		view := assigned(t, h)
		release := make(chan struct{})
		h.gateway.answer = func(context.Context, federation.Event) error { <-release; return nil }
		for _, order := range []string{"accept ", "progress ", "done "} {
			peer.Say("alice", "PRIVMSG Baton :"+order+view.ID.String())
		}
		if err := h.link.Deliver(waiting(t), acceptRow(t)); err != nil { // its PONG comes after all of them
			t.Fatal(err)
		}
		peer.Drop()
		close(release)
		for _, want := range []federation.Verb{federation.Accept, federation.Progress, federation.Complete} {
			if got := h.gateway.next(t).Verb; got != want {
				t.Errorf("%s is filed, want %s", got, want)
			}
		}
	})
}

// Clients that read tags see a command of another user as the step that it is.
func TestChatOpsWritesItsStepToTheChannel(t *testing.T) {
	h, peer := linked(t, nil)
	d := acceptRow(t)
	d.Entry.Event.Arrival.Link, d.Entry.Event.Arrival.ViaCommand = linkName, true
	if err := h.link.Deliver(waiting(t), d); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"TAGMSG", "NOTICE"} {
		m := await(t, peer, command, from("Baton"))
		if m.Params[0] != "#ops" || command == "TAGMSG" && m.Tags["+freeq.at/handoff-id"] != offerID {
			t.Errorf("%s %v to %s", command, m.Tags, m.Params[0])
		}
	}
}

func TestChatOpsAnswersOnlyPeople(t *testing.T) {
	_, peer := visited(t, bridge.Limits{UserEventsPerMinute: 2})
	peer.Say("alice", "NOTICE Baton :help")
	peer.Say("alice", "PRIVMSG #ops :help")
	peer.Say("alice", "PRIVMSG Baton :")
	if got := answered(t, peer, "bob", "help"); !strings.HasPrefix(got, "I carry handoffs") {
		t.Errorf("bob is answered %q", got)
	}
	if got := answered(t, peer, "alice", "sing"); !strings.Contains(got, "Say: help") {
		t.Errorf("alice is answered %q", got)
	}
	peer.Say("alice", "PRIVMSG Baton :\x01VERSION\x01")
	if got := answered(t, peer, "alice", "help"); !strings.HasPrefix(got, "RATE_LIMITED") {
		t.Errorf("the third time alice is answered %q", got)
	}
}

func TestChatOpsOpensARoom(t *testing.T) {
	h, peer := visited(t)
	view := assigned(t, h)
	room := "#room-" + strings.ToLower(view.ID.Short())
	if got := answered(t, peer, "bob", "room "+view.ID.String()); !strings.HasPrefix(got, "That is for the parties") {
		t.Errorf("bob is answered %q", got)
	}
	for range 2 {
		if got, want := answered(t, peer, "alice", "room "+view.ID.String()), "Both are invited to "+room+"."; got != want {
			t.Errorf("answered %q, want %q", got, want)
		}
	}
	var joined, invited []string
	for _, m := range peer.Received() {
		switch {
		case m.Command == "FJOIN" && m.Params[0] == room:
			joined = append(joined, m.Params[2])
		case m.Command == "INVITE" && m.Params[1] == room:
			invited = append(invited, m.Params[0])
		}
	}
	if diff := cmp.Diff([]string{"+is"}, joined); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
	both := []string{peer.UUID("alice"), peer.UUID("scholar")}
	if diff := cmp.Diff(append(both, both...), invited); diff != "" {
		t.Errorf("invited (-want +got):\n%s", diff)
	}
}
