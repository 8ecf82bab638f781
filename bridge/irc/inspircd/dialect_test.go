package inspircd_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// actTags are the tags of an offer of alice in the other dialect.
func actTags() map[string]string {
	return map[string]string{
		"+freeq.at/act": "handoff", "+freeq.at/act-verb": "offer", "+freeq.at/act-to": string(scholar), "+freeq.at/act-title": "Cite",
		"+freeq.at/from": string(alice), "+freeq.at/eventid": offerID, "+freeq.at/sig": "ed25519:kid:AAAA", "+freeq.at/act-x-odd": "kept",
	}
}

func TestDialectsAreRead(t *testing.T) {
	t.Run("a step in act tags is submitted as it was signed", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.Tagmsg("alice", "#ops", actTags())
		ev := h.gateway.next(t)
		if ev.Dialect != federation.ActTags || ev.From != alice || ev.Fields["act-x-odd"] != "kept" || ev.Handoff.String() != offerID {
			t.Errorf("event %+v", ev)
		}
	})
	with := func(tags map[string]string, name, value string) map[string]string {
		tags[name] = value
		if value == "" {
			delete(tags, name)
		}
		return tags
	}
	tests := []struct {
		name, command string
		tags          map[string]string
		want          string // start of the notice
	}{
		{"in chat", "PRIVMSG #ops :hello", actTags(), "MIXED_TAGS " + offerID},
		{"in a notice", "NOTICE #ops :hello", actTags(), "MIXED_TAGS " + offerID},
		{"of both dialects", "TAGMSG #ops", with(actTags(), "+freeq.at/handoff", "offer"), "MIXED_TAGS " + offerID},
		{"of a kind that is no name", "TAGMSG #ops", with(actTags(), "+freeq.at/act", "Bounty"), "UNKNOWN_KIND " + offerID},
		{"of a home", "TAGMSG #ops", with(actTags(), "+freeq.at/act-verb", "confirm"), "WRONG_SENDER " + offerID},
		{"without signer", "TAGMSG #ops", with(actTags(), "+freeq.at/from", ""), "MISSING_REQUIREMENT " + offerID + " something required is missing: +freeq.at/from"},
		{"without event id", "TAGMSG #ops", with(actTags(), "+freeq.at/eventid", ""), "MISSING_REQUIREMENT *"},
	}
	for _, tt := range tests {
		t.Run("a step in act tags "+tt.name+" is refused", func(t *testing.T) {
			_, peer := linked(t, nil)
			peer.Send(strings.Replace(tagLine(peer, "#ops", tt.tags), "TAGMSG #ops", tt.command, 1))
			if got := await(t, peer, "NOTICE").Params[1]; !strings.HasPrefix(got, tt.want) {
				t.Errorf("notice %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDialectOfOffers(t *testing.T) {
	cfg := testConfig("127.0.0.1:7000")
	if got := newHouse(t, cfg).link.Dialect(); got != federation.HandoffTags {
		t.Errorf("%q by default", got)
	}
	cfg.Dialect, cfg.Channels = federation.ActTags, []string{"#Ops", "#dev"}
	link := newHouse(t, cfg).link
	if link.Dialect() != federation.ActTags || !cmp.Equal(link.Channels(), []string{"#ops", "#dev"}) {
		t.Errorf("%q in %q", link.Dialect(), link.Channels())
	}
}

func TestDialectsAreWritten(t *testing.T) {
	// signedRow is an accept of bob, a person on another network, signed in a
	// dialect, of a handoff in another.
	bob := keptKey("bob")
	signedRow := func(t *testing.T, dialect, handoff federation.Dialect) federation.Delivery {
		t.Helper()
		d := acceptRow(t)
		ev := &d.Entry.Event
		ev.From, ev.Provenance, ev.Dialect, ev.Note = bob.DID, federation.Signed, dialect, "gladly"
		ev.Arrival = federation.Arrival{Network: "freeq", Link: "freeq", Name: "bob", Received: ev.ID.Time()}
		ev.Fields = map[string]string{"handoff": "accept", "handoff-id": offerID, "handoff-from": string(bob.DID)}
		if dialect == federation.ActTags {
			ev.Fields = map[string]string{"act": "handoff", "act-verb": "accept", "act-id": offerID, "act-x-odd": "kept"}
		}
		sealed, err := signing.Seal(t.Context(), bob, *ev)
		if err != nil {
			t.Fatal(err)
		}
		d.Entry.Event, d.View.Dialect = sealed, handoff
		return d
	}

	t.Run("a step in act tags, with exactly those and the envelope", func(t *testing.T) {
		h, peer := linked(t, nil)
		d := signedRow(t, federation.ActTags, federation.ActTags)
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatalf("deliver: %v", err)
		}
		want := map[string]string{
			"msgid": acceptID, "+freeq.at/act": "handoff", "+freeq.at/act-verb": "accept", "+freeq.at/act-id": offerID,
			"+freeq.at/act-x-odd": "kept", "+freeq.at/from": string(bob.DID), "+freeq.at/eventid": acceptID,
			"+freeq.at/sig": d.Entry.Event.Signature.Text,
		}
		if diff := cmp.Diff(want, await(t, peer, "TAGMSG").Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		if len(h.evidence.kept) != 0 {
			t.Error("evidence of a step that was not rendered")
		}
	})

	for _, to := range []federation.Dialect{federation.ActTags, federation.HandoffTags} {
		t.Run("a rendition in "+string(to)+" tags, from the user of whoever took the step, with the evidence kept", func(t *testing.T) {
			h, peer := linked(t, nil)
			h.gateway.names[bob.DID] = "bobby"
			from := federation.HandoffTags
			if to == from {
				from = federation.ActTags
			}
			if err := h.link.Deliver(waiting(t), signedRow(t, from, to)); err != nil {
				t.Fatalf("deliver: %v", err)
			}
			step := await(t, peer, "TAGMSG")
			if step.Nick != "bobby" || step.Tags["msgid"] != acceptID || step.Tags["+freeq.at/eventid"] != acceptID {
				t.Errorf("%s said %v", step.Nick, step.Tags)
			}
			prefix := "+freeq.at/" + string(to)
			if step.Tags[prefix+"-for"] != string(bob.DID) || step.Tags[prefix+"-note"] != "gladly" {
				t.Errorf("tags %v", step.Tags)
			}
			if kept := h.evidence.kept; len(kept) != 1 || step.Tags[prefix+"-src"] != kept[0].URL {
				t.Errorf("evidence %v, tags %v", kept, step.Tags)
			}
			if line := await(t, peer, "NOTICE"); line.Nick != "bobby" || !strings.Contains(line.Params[1], "bobby accepts: Cite") {
				t.Errorf("line %q", line.Params)
			}
		})
	}

	t.Run("a receipt, from the gateway's user and without a line", func(t *testing.T) {
		h, peer := linked(t, nil)
		d := acceptRow(t)
		d.Entry.Version, d.View.Dialect = 0, federation.ActTags
		ev := &d.Entry.Event
		ev.Verb, ev.From, ev.Dialect, ev.Arrival = federation.Confirm, home.DID(), federation.ActTags, federation.Arrival{Network: "home", Link: "home"}
		ev.Fields = map[string]string{"act": "handoff", "act-verb": "confirm", "act-id": offerID, "act-subject": offerID}
		if err := h.link.Deliver(waiting(t), d); err != nil {
			t.Fatalf("deliver: %v", err)
		}
		step := await(t, peer, "TAGMSG")
		if step.Nick != "Baton" || step.Params[0] != "#ops" || step.Tags["+freeq.at/act-subject"] != offerID {
			t.Errorf("%s said %q with %v", step.Nick, step.Params, step.Tags)
		}
		if n := countOf(peer, "NOTICE"); n != 0 {
			t.Errorf("%d lines", n)
		}
	})

	t.Run("nothing for a step of this network that has its line already off", func(t *testing.T) {
		cfg := testConfig("127.0.0.1:1")
		cfg.Summaries = false
		h := newHouse(t, cfg)
		d := signedRow(t, federation.ActTags, federation.ActTags)
		d.Entry.Event.Arrival.Link = linkName
		if err := h.link.Deliver(t.Context(), d); err != nil {
			t.Errorf("error %v", err)
		}
	})
}
