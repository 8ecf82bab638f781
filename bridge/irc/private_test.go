package irc_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
)

func TestPrivateVenue(t *testing.T) {
	const (
		alice  = federation.DID("did:plc:alice")
		agent  = federation.DID("did:key:agent")
		own    = federation.DID("did:key:agents-own-key")
		carol  = federation.DID("did:plc:carol")
		nobody = federation.DID("")
	)
	gw := home.DID()
	offered := federation.View{Version: 1, Offerer: alice, Offeree: agent, Venue: federation.PrivateVenue(alice, agent)}
	fromAgent := federation.View{Version: 1, Offerer: agent, Offeree: alice, Venue: federation.PrivateVenue(alice, agent)}
	open := federation.View{Version: 1, Offerer: alice, Venue: federation.PrivateVenue(alice, gw)}
	claimed := open
	claimed.Assignee = agent
	inChannel := federation.View{Version: 1, Offerer: agent, Offeree: alice, Venue: "#ops"}
	tests := []struct {
		name string
		verb federation.Verb
		from federation.DID
		to   federation.DID // named by an offer
		view federation.View
		sent federation.DID // whose user it was sent to
		want string
		code federation.RefusalCode
	}{
		{"an offer to the gateway's user", federation.Offer, alice, agent, federation.View{}, gw, federation.PrivateVenue(alice, agent), ""},
		{"an offer to the recipient's user", federation.Offer, alice, agent, federation.View{}, agent, federation.PrivateVenue(alice, agent), ""},
		{"an offer to the recipient by another of its DIDs", federation.Offer, alice, own, federation.View{}, agent, federation.PrivateVenue(alice, own), ""},
		{"an offer to somebody else's user", federation.Offer, alice, carol, federation.View{}, agent, "", federation.InvalidTarget},
		{"an open offer to the gateway's user", federation.Offer, alice, nobody, federation.View{}, gw, federation.PrivateVenue(alice, gw), ""},
		{"an open offer to an agent's user", federation.Offer, alice, nobody, federation.View{}, agent, "", federation.InvalidTarget},
		{"a cancel to the recipient's user", federation.Cancel, alice, nobody, offered, agent, offered.Venue, ""},
		{"a cancel to the gateway's user", federation.Cancel, alice, nobody, offered, gw, offered.Venue, ""},
		{"an answer to the offerer's user", federation.Accept, alice, nobody, fromAgent, agent, fromAgent.Venue, ""},
		{"an answer to another user", federation.Accept, alice, nobody, fromAgent, carol, "", federation.InvalidTarget},
		{"a cancel of what nobody claimed", federation.Cancel, alice, nobody, open, gw, open.Venue, ""},
		{"a cancel of what was claimed, in the venue of the offer", federation.Cancel, alice, nobody, claimed, agent, open.Venue, ""},
		{"a claim by a stranger, which is for the offerer", federation.Claim, carol, nobody, open, gw, federation.PrivateVenue(carol, alice), ""},
		{"an answer to what was offered in a channel", federation.Accept, alice, nobody, inChannel, gw, federation.PrivateVenue(alice, agent), ""},
		{"a step of a handoff that nobody knows", federation.Accept, alice, nobody, federation.View{}, gw, "", federation.UnknownHandoff},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := federation.EventID{1}
			p := bridge.Ports{Home: home, Gateway: directory{
				views: map[federation.HandoffID]federation.View{id: tt.view}, same: map[federation.DID]federation.DID{agent: own},
			}}
			got, err := irc.PrivateVenue(t.Context(), p, federation.Event{Handoff: id, Verb: tt.verb, From: tt.from, To: tt.to}, tt.sent)
			var code federation.RefusalCode
			if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
				code = refused.Code
			}
			if got != tt.want || code != tt.code {
				t.Errorf("venue %q, error %v", got, err)
			}
		})
	}
	t.Run("nothing, while the record cannot be read", func(t *testing.T) {
		p := bridge.Ports{Home: home, Gateway: directory{err: &federation.UnavailableError{What: "record"}}}
		_, err := irc.PrivateVenue(t.Context(), p, federation.Event{Verb: federation.Accept, From: alice}, gw)
		if _, notNow := errors.AsType[*federation.UnavailableError](err); !notNow {
			t.Errorf("error %v", err)
		}
	})
}

func TestPrivateHandoffIsWrittenOnLinksOfItsParties(t *testing.T) {
	const (
		alice = federation.DID("did:plc:alice")
		bob   = federation.DID("did:plc:bob")
	)
	opened := federation.View{Version: 1, Offerer: alice, Offeree: bob, Venue: federation.PrivateVenue(alice, bob), Link: "freeq"}
	seen := map[federation.DID]string{alice: "freeq", bob: "lab"}
	down := &federation.UnavailableError{What: "record"}
	for name, test := range map[string]struct {
		link    string
		away    error // of the record
		written bool
	}{
		"the link where it was opened":              {"freeq", nil, true},
		"that link, without a record":               {"freeq", down, true},
		"the link of the other party":               {"lab", nil, true},
		"a link of neither":                         {"office", nil, false},
		"another link, while nobody can look it up": {"lab", down, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := bridge.Ports{Home: home, Bindings: bridgetest.Bindings{Links: seen, Err: test.away}}
			written, err := irc.Channels{}.Writes(t.Context(), p, test.link, opened)
			if written != test.written || err != nil && !errors.Is(err, test.away) {
				t.Errorf("written %v, error %v", written, err)
			}
		})
	}
}
