package handofftag_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/handofftag"
)

const (
	handoffID = "01K9ZQ0000000000000000000H"
	eventID   = "01K9ZQ0000000000000000000E"
	alice     = "did:plc:alice"
	bob       = "did:plc:bob"
)

// offer returns the tags of a good offer, changed by the given ones; a value of
// "-" takes a tag away.
func offer(changes ...string) translate.Tagged {
	tags := map[string]string{
		"+freeq.at/handoff": "offer", "+freeq.at/handoff-id": handoffID, "+freeq.at/handoff-to": bob,
		"+freeq.at/handoff-task": "Review it", "+freeq.at/handoff-from": alice, "+freeq.at/sig": "ed25519:k:s",
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

func TestDecodeReadsAllTags(t *testing.T) {
	m := offer(
		"+freeq.at/handoff-context", `{"q":"X"}`, "+freeq.at/handoff-context-h", "sha256:"+strings.Repeat("ab", 32),
		"+freeq.at/handoff-caps", "web-search,go/1.26", "+freeq.at/handoff-deadline", "1788000000",
		"+freeq.at/handoff-reply-to", "msg~1", "+freeq.at/handoff-note", "soon", "+freeq.at/handoff-x-priority", "high",
		"+freeq.at/handoff-x-unknown", "kept", "+freeq.at/eventid", handoffID, "time", "2026", "+draft/reply", "x",
	)
	got, err := handofftag.Codec{}.Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	id := mustID(t, handoffID)
	want := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: alice, To: bob, Venue: "#ops",
		Dialect: federation.HandoffTags, Title: "Review it", Context: `{"q":"X"}`,
		ContextHash: "sha256:" + strings.Repeat("ab", 32), Caps: []string{"web-search", "go/1.26"},
		Deadline: time.Unix(1788000000, 0).UTC(), Note: "soon", ReplyTo: "msg~1", Priority: "high",
		Stamped: true, Provenance: federation.Signed, Signature: federation.Signature{Text: "ed25519:k:s"},
		Fields: map[string]string{
			"handoff": "offer", "handoff-id": handoffID, "handoff-to": bob, "handoff-task": "Review it", "handoff-from": alice,
			"handoff-context": `{"q":"X"}`, "handoff-context-h": "sha256:" + strings.Repeat("ab", 32),
			"handoff-caps": "web-search,go/1.26", "handoff-deadline": "1788000000", "handoff-reply-to": "msg~1",
			"handoff-note": "soon", "handoff-x-priority": "high", "handoff-x-unknown": "kept",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func TestEncodeWritesExactlyWhatWasSigned(t *testing.T) {
	for name, m := range map[string]translate.Tagged{
		"a stamped step":                offer("+freeq.at/eventid", handoffID, "+freeq.at/handoff-x-odd", "a b;c\\d"),
		"a step without event id":       offer(),
		"a title with space around it":  offer("+freeq.at/handoff-task", "  Review it "),
		"a tag that nobody here knows":  offer("+freeq.at/handoff-future", ""),
		"a spelling without the prefix": {Command: "TAGMSG", Target: "#ops", Tags: bare(offer().Tags)},
	} {
		t.Run(name, func(t *testing.T) {
			ev, err := handofftag.Codec{}.Decode(m)
			if err != nil {
				t.Fatal(err)
			}
			got, losses, err := handofftag.Codec{}.Encode(translate.Step{Entry: federation.Entry{Event: ev}})
			if err != nil || len(losses) != 0 {
				t.Fatal(err, losses)
			}
			want := translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: maps.Clone(m.Tags)}
			if _, plain := want.Tags["freeq.at/handoff"]; plain {
				want.Tags = offer().Tags // one spelling goes out
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func bare(tags map[string]string) map[string]string {
	plain := map[string]string{}
	for name, value := range tags {
		plain[strings.TrimPrefix(name, "+")] = value
	}
	return plain
}

func TestEncodeRefusesStepsOfOtherDialects(t *testing.T) {
	if _, _, err := (handofftag.Codec{}).Encode(translate.Step{}); err == nil {
		t.Error("an unsigned step was written")
	}
}

func TestDecodeNamesMistakes(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, test := range map[string]struct {
		m      translate.Tagged
		code   federation.RefusalCode
		detail string // part of it
	}{
		"no verb":                       {offer("+freeq.at/handoff", "-"), federation.MissingRequirement, "+freeq.at/handoff"},
		"no handoff id":                 {offer("+freeq.at/handoff-id", "-"), federation.MissingRequirement, "handoff-id"},
		"no title":                      {offer("+freeq.at/handoff-task", "-"), federation.MissingRequirement, "handoff-task"},
		"a title of blanks":             {offer("+freeq.at/handoff-task", "  "), federation.MissingRequirement, "handoff-task"},
		"a title of 301 bytes":          {offer("+freeq.at/handoff-task", strings.Repeat("x", 301)), federation.InvalidTag, "handoff-task"},
		"a title with a line break":     {offer("+freeq.at/handoff-task", "a\nb"), federation.InvalidTag, "handoff-task"},
		"a verb that is no name":        {offer("+freeq.at/handoff", "take it"), federation.UnknownVerb, ""},
		"an empty verb":                 {offer("+freeq.at/handoff", ""), federation.UnknownVerb, ""},
		"a kind that is no name":        {offer("+freeq.at/handoff-kind", "Bounty"), federation.UnknownKind, ""},
		"bids until some day":           {offer("+freeq.at/handoff-bid-deadline", "soon"), federation.InvalidTag, "handoff-bid-deadline"},
		"a bid that is no ULID":         {offer("+freeq.at/handoff-accepts", "x"), federation.InvalidTag, "handoff-accepts"},
		"a replaced one that is no id":  {offer("+freeq.at/handoff-replaces", "01M16E7TC0SHRT"), federation.InvalidTag, "handoff-replaces"},
		"a verb in capitals":            {offer("+freeq.at/handoff", "Offer"), federation.UnknownVerb, ""},
		"a handoff id in lower case":    {offer("+freeq.at/handoff-id", strings.ToLower(handoffID)), federation.InvalidTag, "handoff-id"},
		"a handoff id out of range":     {offer("+freeq.at/handoff-id", "8"+handoffID[1:]), federation.InvalidTag, "handoff-id"},
		"an event id that is no ULID":   {offer("+freeq.at/eventid", "1"), federation.InvalidEventID, ""},
		"an offer with two ids":         {offer("+freeq.at/eventid", eventID), federation.InvalidEventID, ""},
		"a signer that is no DID":       {offer("+freeq.at/handoff-from", "alice"), federation.InvalidTag, "handoff-from"},
		"a recipient that is no DID":    {offer("+freeq.at/handoff-to", "bob"), federation.InvalidTag, "handoff-to"},
		"a context of prose":            {offer("+freeq.at/handoff-context", "see above"), federation.InvalidContext, ""},
		"a context of broken JSON":      {offer("+freeq.at/handoff-context", "{"), federation.InvalidContext, ""},
		"a context over http":           {offer("+freeq.at/handoff-context", "http://example.com/x"), federation.InvalidContext, ""},
		"an inline context too long":    {offer("+freeq.at/handoff-context", `["`+long+`"]`), federation.InvalidContext, ""},
		"a hash of another kind":        {offer("+freeq.at/handoff-context-h", "md5:00"), federation.InvalidTag, "handoff-context-h"},
		"17 capabilities":               {offer("+freeq.at/handoff-caps", strings.Repeat("a,", 16)+"a"), federation.InvalidTag, "handoff-caps"},
		"an empty capability":           {offer("+freeq.at/handoff-caps", "a,,b"), federation.InvalidTag, "handoff-caps"},
		"a capability with a space":     {offer("+freeq.at/handoff-caps", "a b"), federation.InvalidTag, "handoff-caps"},
		"a deadline in words":           {offer("+freeq.at/handoff-deadline", "tomorrow"), federation.InvalidTag, "handoff-deadline"},
		"a deadline with a sign":        {offer("+freeq.at/handoff-deadline", "-1"), federation.InvalidTag, "handoff-deadline"},
		"a deadline beyond all years":   {offer("+freeq.at/handoff-deadline", "9999999999999"), federation.InvalidTag, "handoff-deadline"},
		"a note of 401 characters":      {offer("+freeq.at/handoff-note", strings.Repeat("é", 401)), federation.InvalidTag, "handoff-note"},
		"one tag in two spellings":      {offer("freeq.at/handoff-id", handoffID), federation.DuplicateTag, ""},
		"tags of two dialects":          {offer("+freeq.at/act", "open"), federation.MixedTags, ""},
		"a channel with status prefix":  {at(offer(), "@#ops"), federation.InvalidTarget, ""},
		"a pattern of servers":          {at(offer(), "$*.example"), federation.InvalidTarget, ""},
		"the verb wrong and the target": {at(offer("+freeq.at/handoff", "Take"), "bob"), federation.UnknownVerb, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := handofftag.Codec{}.Decode(test.m)
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

func TestDecodeLeavesTheVenueOfPrivateSteps(t *testing.T) {
	ev, err := handofftag.Codec{}.Decode(at(offer(), "bob"))
	if err != nil || ev.Venue != "" {
		t.Errorf("venue %q, %v", ev.Venue, err)
	}
}

func TestDecodeRefusalNamesTheReadableParts(t *testing.T) {
	for name, test := range map[string]struct {
		m       translate.Tagged
		subject string
	}{
		"the event id":                          {offer("+freeq.at/eventid", eventID, "+freeq.at/handoff", "Take"), eventID},
		"the handoff id, without an event id":   {offer("+freeq.at/handoff", "Take"), handoffID},
		"the handoff id, beside a bad event id": {offer("+freeq.at/eventid", "x"), handoffID},
		"the handoff id, of mixed tags":         {offer("+freeq.at/act", "open"), handoffID},
		"nothing, where neither could be read":  {offer("+freeq.at/handoff-id", "x"), "*"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := handofftag.Codec{}.Decode(test.m)
			refused, ok := errors.AsType[*federation.RefusalError](err)
			if !ok || refused.Subject() != test.subject {
				t.Errorf("error %v, want one about %q", err, test.subject)
			}
		})
	}
}

func TestDecodeIgnoresOtherMessages(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"no tags":                       nil,
		"tags of others":                {"+draft/reply": "x", "time": "now", "+other.example/handoff": "offer"},
		"a bare acknowledgement":        {"+freeq.at/handoff-ack": eventID},
		"a tag that only begins alike":  {"+freeq.at/handoffs": "2"},
		"an act step, in other tags":    {"+freeq.at/act": "open", "+freeq.at/act-id": handoffID},
		"a reference on a summary line": {"+freeq.at/ref": handoffID},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := handofftag.Codec{}.Decode(translate.Tagged{Command: "PRIVMSG", Target: "#ops", Tags: tags})
			if !errors.Is(err, translate.ErrNotHandoff) {
				t.Errorf("error %v, want ErrNotHandoff", err)
			}
		})
	}
}

func TestWriteReportsLosses(t *testing.T) {
	ev := federation.Event{
		Verb: federation.Complete, Handoff: mustID(t, handoffID), From: alice, For: bob, ReplyTo: eventID,
		Note:     strings.Repeat("é", 500),
		Context:  `{"a":"` + strings.Repeat("x", 4000) + `"}`,
		Evidence: &federation.Evidence{URL: "https://gw.example/evidence/ab", Digest: [32]byte{0xab}},
	}
	fields, losses := handofftag.Write(ev)
	want := map[string]string{
		"handoff": "complete", "handoff-id": handoffID, "handoff-from": alice, "handoff-for": bob, "handoff-reply-to": eventID,
		"handoff-note": strings.Repeat("é", 400),
		"handoff-src":  "https://gw.example/evidence/ab", "handoff-src-h": "sha256:ab" + strings.Repeat("00", 31),
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	var lost []string
	for _, loss := range losses {
		lost = append(lost, loss.Field+" "+string(loss.Fate))
	}
	if diff := cmp.Diff([]string{"note cut", "context lost"}, lost); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
}

func TestWriteKeepsAContextThatJustFits(t *testing.T) {
	ev := federation.Event{Verb: federation.Complete, Handoff: mustID(t, handoffID), From: alice, Context: `{"a":"x y"}`}
	fields, losses := handofftag.Write(ev)
	if fields["handoff-context"] != ev.Context || len(losses) != 0 {
		t.Errorf("context %q, losses %v", fields["handoff-context"], losses)
	}
}

func TestWriteNamesOtherKinds(t *testing.T) {
	id, of := mustID(t, eventID), mustID(t, handoffID)
	for name, test := range map[string]struct {
		ev   federation.Event
		tags map[string]string
	}{
		"an offer that takes bids": {
			federation.Event{ID: of, Kind: "bounty", Verb: federation.Offer, Title: "Fix it", BidDeadline: time.Unix(1788000000, 0).UTC()},
			map[string]string{"handoff-kind": "bounty", "handoff-bid-deadline": "1788000000"},
		},
		"an award":                 {federation.Event{ID: id, Kind: "bounty", Verb: "award", Accepts: id}, map[string]string{"handoff-kind": "bounty", "handoff-accepts": eventID}},
		"a re-offer":               {federation.Event{ID: of, Kind: federation.Handoff, Verb: federation.Offer, Title: "Again", Replaces: id}, map[string]string{"handoff-replaces": eventID}},
		"a step of the usual kind": {federation.Event{ID: id, Kind: federation.Handoff, Verb: federation.Accept}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ev := test.ev
			ev.Handoff, ev.From, ev.Venue, ev.Dialect = of, alice, "#ops", federation.HandoffTags
			ev.Stamped, ev.Provenance, ev.Signature.Text = true, federation.Signed, "ed25519:k:s"
			ev.Fields, _ = handofftag.Write(ev)
			for _, tag := range []string{"handoff-kind", "handoff-bid-deadline", "handoff-accepts", "handoff-replaces"} {
				if ev.Fields[tag] != test.tags[tag] {
					t.Errorf("%s is %q, want %q", tag, ev.Fields[tag], test.tags[tag])
				}
			}
			m, _, err := handofftag.Codec{}.Encode(translate.Step{Entry: federation.Entry{Event: ev}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := handofftag.Codec{}.Decode(m)
			if diff := cmp.Diff(ev, got); err != nil || diff != "" {
				t.Errorf("%v (-written +read):\n%s", err, diff)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("offer", handoffID, "Review it", `{"q":"X"}`, "a,b", "1788000000", "#ops")
	f.Add("accept", eventID, "", "https://x.example/", "", "", "#Büro")
	f.Fuzz(func(t *testing.T, verb, id, title, context, caps, deadline, target string) {
		m := at(offer("+freeq.at/handoff", verb, "+freeq.at/handoff-id", id, "+freeq.at/handoff-task", title,
			"+freeq.at/handoff-context", context, "+freeq.at/handoff-caps", caps, "+freeq.at/handoff-deadline", deadline), target)
		ev, err := handofftag.Codec{}.Decode(m)
		if err != nil {
			return
		}
		again, _, err := handofftag.Codec{}.Encode(translate.Step{Entry: federation.Entry{Event: ev}})
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
