package acttag_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/acttag"
)

const (
	handoffID = "01K9ZQ0000000000000000000H"
	eventID   = "01K9ZQ0000000000000000000E"
	alice     = "did:plc:alice"
	bob       = "did:plc:bob"
)

// step returns the tags of a good accept, changed by the given ones; a value of
// "-" takes a tag away.
func step(changes ...string) translate.Tagged {
	tags := map[string]string{
		"+freeq.at/act": "handoff", "+freeq.at/act-verb": "accept", "+freeq.at/act-id": handoffID,
		"+freeq.at/from": bob, "+freeq.at/eventid": eventID, "+freeq.at/sig": "ed25519:k:s",
	}
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			delete(tags, changes[i])
			continue
		}
		tags[changes[i]] = changes[i+1]
	}
	return translate.Tagged{Command: "TAGMSG", Target: "#Ops", Tags: tags}
}

func offer(changes ...string) translate.Tagged {
	return step(append([]string{
		"+freeq.at/act-verb", "offer", "+freeq.at/act-id", "-", "+freeq.at/act-to", bob,
		"+freeq.at/act-title", "Review it", "+freeq.at/from", alice,
	}, changes...)...)
}

func TestDecodeReadsAllTags(t *testing.T) {
	got, err := acttag.Codec{}.Decode(offer(
		"+freeq.at/act-ctx", "https://x.example/1", "+freeq.at/act-ctx-h", "sha256:9f00", "+freeq.at/act-caps", "freeq.at/web-search",
		"+freeq.at/act-deadline", "1788000000", "+freeq.at/act-note", "soon", "+freeq.at/act-x-priority", "high",
		"+freeq.at/act-x-unknown", "kept", "+freeq.at/actor-class", "agent", "msgid", "x",
	))
	if err != nil {
		t.Fatal(err)
	}
	id := mustID(t, eventID)
	want := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: alice, To: bob, Venue: "#ops",
		Dialect: federation.ActTags, Title: "Review it", Context: "https://x.example/1", ContextHash: "sha256:9f00",
		Caps: []string{"freeq.at/web-search"}, Deadline: time.Unix(1788000000, 0).UTC(), Note: "soon", Priority: "high",
		Stamped: true, Provenance: federation.Signed, Signature: federation.Signature{Text: "ed25519:k:s"},
		Fields: map[string]string{
			"act": "handoff", "act-verb": "offer", "act-to": bob, "act-title": "Review it", "act-ctx": "https://x.example/1",
			"act-ctx-h": "sha256:9f00", "act-caps": "freeq.at/web-search", "act-deadline": "1788000000", "act-note": "soon",
			"act-x-priority": "high", "act-x-unknown": "kept",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func TestDecodeAcceptsAnOfferWithoutTitle(t *testing.T) {
	ev, err := acttag.Codec{}.Decode(offer("+freeq.at/act-title", "-"))
	if err != nil || ev.Title != "untitled" {
		t.Errorf("title %q, %v", ev.Title, err)
	}
}

func TestEncodeWritesExactlyWhatWasSigned(t *testing.T) {
	for name, m := range map[string]translate.Tagged{
		"an offer":                  offer("+freeq.at/act-x-odd", "a b;c\\d"),
		"an answer":                 step(),
		"a tag that nobody knows":   step("+freeq.at/act-future", ""),
		"a title with blanks round": offer("+freeq.at/act-title", " Review it "),
	} {
		t.Run(name, func(t *testing.T) {
			ev, err := acttag.Codec{}.Decode(m)
			if err != nil {
				t.Fatal(err)
			}
			got, losses, err := acttag.Codec{}.Encode(translate.Step{Entry: federation.Entry{Event: ev}})
			if err != nil || len(losses) != 0 {
				t.Fatal(err, losses)
			}
			want := translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: maps.Clone(m.Tags)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodeRefusesStepsOfOtherDialects(t *testing.T) {
	if _, _, err := (acttag.Codec{}).Encode(translate.Step{}); err == nil {
		t.Error("an unsigned step was written")
	}
}

func TestDecodeNamesMistakes(t *testing.T) {
	text := offer()
	text.Command = "PRIVMSG"
	for name, test := range map[string]struct {
		m      translate.Tagged
		code   federation.RefusalCode
		detail string // part of it
	}{
		"no event id":                      {step("+freeq.at/eventid", "-"), federation.MissingRequirement, "eventid"},
		"an event id that is no ULID":      {step("+freeq.at/eventid", "x"), federation.InvalidEventID, ""},
		"no kind":                          {step("+freeq.at/act", "-"), federation.MissingRequirement, "+freeq.at/act"},
		"a kind that is no name":           {step("+freeq.at/act", "An approval"), federation.UnknownKind, ""},
		"no verb":                          {step("+freeq.at/act-verb", "-"), federation.MissingRequirement, "act-verb"},
		"a verb that is no name":           {step("+freeq.at/act-verb", "Take"), federation.UnknownVerb, ""},
		"a receipt by a person":            {step("+freeq.at/act-verb", "confirm"), federation.WrongSender, ""},
		"an offer that names a handoff":    {offer("+freeq.at/act-id", handoffID), federation.IllegalStep, ""},
		"a step that names none":           {step("+freeq.at/act-id", "-"), federation.MissingRequirement, "act-id"},
		"a handoff id in lower case":       {step("+freeq.at/act-id", strings.ToLower(handoffID)), federation.InvalidTag, "act-id"},
		"a signer that is no DID":          {step("+freeq.at/from", "bob"), federation.InvalidTag, "from"},
		"a context of prose":               {offer("+freeq.at/act-ctx", "see above"), federation.InvalidContext, ""},
		"a deadline in words":              {offer("+freeq.at/act-deadline", "soon"), federation.InvalidTag, "act-deadline"},
		"bids until some day":              {offer("+freeq.at/act-bid-deadline", "soon"), federation.InvalidTag, "act-bid-deadline"},
		"a bid that is no ULID":            {step("+freeq.at/act-accepts", "x"), federation.InvalidTag, "act-accepts"},
		"a replaced handoff that is no id": {offer("+freeq.at/act-replaces", "01M16E7TC0SHRT"), federation.InvalidTag, "act-replaces"},
		"tags beside a text":               {text, federation.MixedTags, ""},
		"tags of two dialects":             {step("+freeq.at/handoff-note", "x"), federation.MixedTags, ""},
		"one tag in two spellings":         {step("freeq.at/act-id", handoffID), federation.DuplicateTag, ""},
		"a channel with a status prefix":   {at(step(), "@#ops"), federation.InvalidTarget, ""},
		"the verb, before a bad recipient": {offer("+freeq.at/act-verb", "Take", "+freeq.at/act-to", "x"), federation.UnknownVerb, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := acttag.Codec{}.Decode(test.m)
			refused, ok := errors.AsType[*federation.RefusalError](err)
			if !ok || refused.Code != test.code || !strings.Contains(refused.Detail, test.detail) {
				t.Errorf("error %v, want %s about %q", err, test.code, test.detail)
			}
		})
	}
}

func at(m translate.Tagged, target string) translate.Tagged {
	m.Target = target
	return m
}

func TestDecodeIgnoresOtherMessages(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"no tags":                           nil,
		"tags of the other dialect":         {"+freeq.at/handoff": "accept", "+freeq.at/handoff-id": handoffID},
		"an envelope without a step":        {"+freeq.at/from": bob, "+freeq.at/eventid": eventID},
		"a tag that only begins alike":      {"+freeq.at/actor-class": "agent"},
		"a reference on a line for people":  {"+freeq.at/ref": handoffID},
		"a bare acknowledgement of a step":  {"+freeq.at/handoff-ack": eventID},
		"the same names of another network": {"+other.example/act": "handoff"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := (acttag.Codec{}).Decode(translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: tags}); !errors.Is(err, translate.ErrNotHandoff) {
				t.Errorf("error %v, want ErrNotHandoff", err)
			}
		})
	}
}

func TestEncodeRoundTrips(t *testing.T) {
	id, of := mustID(t, eventID), mustID(t, handoffID)
	for name, ev := range map[string]federation.Event{
		"an offer": {
			ID: id, Handoff: id, Verb: federation.Offer, From: alice, To: bob, Title: "Review it", Caps: []string{"a", "b"},
			Deadline: time.Unix(1788000000, 0).UTC(), Context: `{"q":"X"}`, Priority: "low",
		},
		"a vouched answer": {
			ID: id, Handoff: of, Verb: federation.Complete, From: alice, For: bob, Note: "done", ReplyTo: handoffID,
			Context: "https://x.example/r",
		},
		"an offer that takes bids": {
			ID: id, Handoff: id, Kind: "bounty", Verb: federation.Offer, From: alice, Title: "Fix it",
			BidDeadline: time.Unix(1788000000, 0).UTC(), Replaces: of,
		},
		"an award": {ID: id, Handoff: of, Kind: "bounty", Verb: "award", From: alice, Accepts: of},
	} {
		t.Run(name, func(t *testing.T) {
			if ev.Kind == "" {
				ev.Kind = federation.Handoff
			}
			ev.Dialect, ev.Venue, ev.Stamped, ev.Provenance = federation.ActTags, "#ops", true, federation.Signed
			ev.Signature.Text = "ed25519:k:s"
			fields, losses := acttag.Write(ev)
			if len(losses) > 0 {
				t.Fatal(losses)
			}
			ev.Fields = fields
			m, _, err := acttag.Codec{}.Encode(translate.Step{Entry: federation.Entry{Event: ev}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := acttag.Codec{}.Decode(m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ev, got); diff != "" {
				t.Errorf("event (-written +read):\n%s", diff)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("offer", "", "Review it", "https://x.example/", "a,b", "1788000000", "#ops")
	f.Add("accept", handoffID, "", "", "", "", "#Büro")
	f.Fuzz(func(t *testing.T, verb, id, title, context, caps, deadline, target string) {
		m := at(offer("+freeq.at/act-verb", verb, "+freeq.at/act-title", title, "+freeq.at/act-ctx", context,
			"+freeq.at/act-caps", caps, "+freeq.at/act-deadline", deadline), target)
		if id != "" {
			m.Tags["+freeq.at/act-id"] = id
		}
		ev, err := acttag.Codec{}.Decode(m)
		if err != nil {
			return
		}
		again, _, err := acttag.Codec{}.Encode(translate.Step{Entry: federation.Entry{Event: ev}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.Tags, again.Tags); diff != "" {
			t.Errorf("tags (-in +out):\n%s", diff)
		}
	})
}

func mustID(t *testing.T, s string) federation.EventID {
	t.Helper()
	id, err := federation.ParseEventID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
