//go:build interop

package main_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

// with returns a step some of whose fields are others, signed again; an empty value
// takes a field away.
func (s signed) with(d dialect, p person, venue string, changes map[string]string) signed {
	fields := map[string]string{}
	for full, value := range s.tags {
		if name := strings.TrimPrefix(full, vendor); name == string(d) || strings.HasPrefix(name, string(d)+"-") {
			fields[name] = value
		}
	}
	for name, value := range changes {
		fields[name] = value
		if value == "" {
			delete(fields, name)
		}
	}
	return d.seal(p, venue, s.event, s.handoff, fields)
}

// wrong is a step refused on IRC.
type wrong struct {
	name    string
	code    string
	step    signed
	command string            // "" is TAGMSG
	target  string            // "" is the channel
	tags    map[string]string // beside the tags of the step
	subject string            // "" is the event id
}

func TestRefusalsOnIRC(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, rfcTags, unlimited+"[policy]\nclaim_caps = true\n")
	tw.appear(t, rfcTags)
	var all []wrong
	for _, d := range dialects() {
		all = append(all, tw.wrongOffers(d)...)
		all = append(all, tw.wrongSteps(t, d)...)
	}
	for _, tt := range append(all, tw.wrongInOneDialect()...) {
		t.Run(tt.name, func(t *testing.T) {
			tags := maps.Clone(tt.step.tags)
			maps.Copy(tags, tt.tags)
			maps.DeleteFunc(tags, func(_, value string) bool { return value == "-" })
			command, params := "TAGMSG", []string{channel}
			if tt.command != "" {
				command, params = tt.command, append(params, "text")
			}
			if tt.target != "" {
				params[0] = tt.target
			}
			if err := tw.alice.Send(tags, command, params...); err != nil {
				t.Fatal(err)
			}
			subject := tt.subject
			if subject == "" {
				subject = tt.step.event
			}
			tw.refused(t, tw.alice, tt.code, subject)
		})
	}
	tw.settle(t)
	for _, m := range tw.carol.Received() {
		if m.Command == "TAGMSG" && m.Tags[actTags.tag("verb")] != "confirm" && m.Tags[vendor+"handoff-task"] != "a fence" {
			t.Errorf("something crossed: %v", m.Tags)
		}
	}
}

// wrongOffers returns offers refused in either dialect.
func (tw *twin) wrongOffers(d dialect) []wrong {
	offer := func(more extras) signed {
		all := extras{"to": tw.finn.DID, "title": title}
		maps.Copy(all, more)
		return d.offer(tw.key, channel, all)
	}
	other := string(d.other()) + "-x-note"
	say := func(name string) string { return string(d) + ": " + name }
	old := d.at(time.Now().Add(-time.Hour), tw.key, channel, "offer", "", extras{"to": tw.finn.DID, "title": title})
	return []wrong{
		{name: say("tags of both dialects"), code: "MIXED_TAGS", step: offer(nil), tags: map[string]string{vendor + other: "x"}},
		{name: say("a context that is none"), code: "INVALID_CONTEXT", step: offer(extras{map[dialect]string{rfcTags: "context", actTags: "ctx"}[d]: "see attachment"})},
		{name: say("a deadline in words"), code: "INVALID_TAG", step: offer(extras{"deadline": "soon"})},
		{name: say("a deadline in a year"), code: "INVALID_TAG", step: offer(extras{"deadline": due(time.Now().AddDate(1, 0, 0))})},
		{name: say("a title of 301 bytes"), code: "INVALID_TAG", step: offer(extras{"title": strings.Repeat("x", 301)})},
		{name: say("17 capabilities"), code: "INVALID_TAG", step: offer(extras{"caps": strings.Repeat("a,", 16) + "a"})},
		{name: say("a capability with a space"), code: "INVALID_TAG", step: offer(extras{"caps": "web search"})},
		{name: say("a note of 401 characters"), code: "INVALID_TAG", step: offer(extras{"note": strings.Repeat("é", 401)})},
		{name: say("an id an hour old"), code: "EVENTID_CLOCK_SKEW", step: old},
		{name: say("an id that is none"), code: "INVALID_EVENTID", step: offer(nil), tags: map[string]string{vendor + "eventid": "01abc"}, subject: map[dialect]string{rfcTags: "", actTags: "*"}[d]},
		{name: say("a private offer to another agent than it names"), code: "INVALID_TARGET", target: "finn", step: d.offer(tw.key, privately(tw.key.did, tw.scout.DID), extras{"to": tw.scout.DID, "title": title})},
	}
}

// wrongSteps returns later steps refused in either dialect, of valid handoffs.
func (tw *twin) wrongSteps(t *testing.T, d dialect) []wrong {
	t.Helper()
	offered := d.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
	another := d.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
	open := d.offer(tw.key, channel, extras{"title": title, "caps": skill})
	for _, s := range []signed{offered, another, open} {
		send(t, tw.alice, s.tags)
		seenAsSigned(t, tw.carol, d, "offer", s)
	}
	replyTo := map[dialect]string{rfcTags: "reply-to", actTags: "x-reply-to"}[d]
	step := func(verb string, more extras) signed { return d.step(tw.key, channel, verb, offered.handoff, more) }
	again := offered.with(d, tw.key, channel, map[string]string{string(d) + "-note": "other bytes"})
	say := func(name string) string { return string(d) + ": " + name }
	return []wrong{
		{name: say("an id of other bytes"), code: "EVENTID_IN_USE", step: again},
		{name: say("a verb that is none"), code: "UNKNOWN_VERB", step: step("fly", nil)},
		{name: say("an expiry by a person"), code: "WRONG_SENDER", step: step("expire", nil)},
		{name: say("an accept by the offerer"), code: "WRONG_SENDER", step: step("accept", nil)},
		{name: say("a claim of what is addressed"), code: "ILLEGAL_STEP", step: step("claim", nil)},
		{name: say("progress of what nobody accepted"), code: "ILLEGAL_STEP", step: step("progress", nil)},
		{name: say("a handoff that nobody knows"), code: "UNKNOWN_HANDOFF", step: d.step(tw.key, channel, "cancel", ulid.Make().String(), nil)},
		{name: say("a handoff id that is none"), code: "INVALID_TAG", step: d.step(tw.key, channel, "cancel", "01abc", nil)},
		{name: say("an answer to another handoff"), code: "WRONG_REFERENCE", step: step("cancel", extras{replyTo: another.event})},
		{name: say("a step in another place"), code: "WRONG_VENUE", target: "Baton", step: d.step(tw.key, privately(tw.key.did, tw.finn.DID), "cancel", offered.handoff, nil)},
		{name: say("a claim by somebody who declared nothing"), code: "MISSING_CAPABILITY", step: d.step(tw.key, channel, "claim", open.handoff, nil)},
	}
}

// wrongInOneDialect returns mistakes possible in only one dialect.
func (tw *twin) wrongInOneDialect() []wrong {
	terms := extras{"to": tw.finn.DID, "title": title}
	rfc := func() signed { return rfcTags.offer(tw.key, channel, terms) }
	act := func() signed { return actTags.offer(tw.key, channel, terms) }
	anonymous := map[string]string{vendor + "from": "-"}
	return []wrong{
		{name: "handoff: no title", code: "MISSING_REQUIREMENT", step: rfc().with(rfcTags, tw.key, channel, map[string]string{"handoff-task": ""})},
		{name: "handoff: no signer", code: "MISSING_REQUIREMENT", step: rfc().with(rfcTags, tw.key, channel, map[string]string{"handoff-from": ""})},
		{name: "handoff: an event id unlike the handoff id", code: "INVALID_EVENTID", step: rfc().with(rfcTags, tw.key, channel, map[string]string{"handoff-id": ulid.Make().String()})},
		{name: "act: no signer", code: "MISSING_REQUIREMENT", step: act(), tags: anonymous},
		{name: "act: no event id", code: "MISSING_REQUIREMENT", step: act(), tags: map[string]string{vendor + "eventid": "-"}, subject: "*"},
		{name: "act: no verb", code: "MISSING_REQUIREMENT", step: act().with(actTags, tw.key, channel, map[string]string{"act-verb": ""})},
		{name: "act: another kind", code: "UNKNOWN_KIND", step: act().with(actTags, tw.key, channel, map[string]string{"act": "riddle"})},
		{name: "act: beside a text", code: "MIXED_TAGS", command: "PRIVMSG", step: act()},
		{name: "act: a receipt by a person", code: "WRONG_SENDER", step: actTags.step(tw.key, channel, "confirm", ulid.Make().String(), extras{"subject": ulid.Make().String()})},
		{name: "act: an offer that names a handoff", code: "ILLEGAL_STEP", step: act().with(actTags, tw.key, channel, map[string]string{"act-id": ulid.Make().String()})},
	}
}

func TestRefusalForMissingKeysDelaysNobody(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, rfcTags)
	stranger := person{key: tw.key.key, did: "did:web:nobody.invalid"}
	for _, d := range dialects() {
		unknown := d.offer(stranger, channel, extras{"to": tw.finn.DID, "title": title})
		send(t, tw.alice, unknown.tags)
		tw.refused(t, tw.alice, "SIGNATURE_UNVERIFIABLE", unknown.event)
	}
	tw.settle(t)
}

func TestRefusalsOnAIRC(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, rfcTags, unlimited+"[policy]\nclaim_caps = true\n")
	addressed := rfcTags.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
	another := rfcTags.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
	open := actTags.offer(tw.key, channel, extras{"title": title, "caps": skill})
	for _, s := range []signed{addressed, another, open} {
		send(t, tw.alice, s.tags)
		tw.finn.next(t, "the offer", isAbout("offer", s.handoff))
	}
	scout := &mailbox{Agent: tw.scout}
	alice := handleOf(tw.key.did)
	own := tw.finn.own()
	self := func(s signed) map[string]any {
		return payload("at.freeq:handoff", map[string]any{"handoff": map[string]any{"id": s.handoff, "event": "accept", "proof": s.proof(rfcTags, own)}})
	}
	accept := func(venue string) signed { return rfcTags.step(own, venue, "accept", addressed.handoff, nil) }
	forged := accept(channel)
	forged.document = strings.Replace(forged.document, `"accept"`, `"decline"`, 1)
	old := rfcTags.at(time.Now().Add(-time.Hour), own, channel, "accept", addressed.handoff, nil)
	for _, tt := range []struct {
		name    string
		from    *mailbox
		to      string
		payload any
		status  int
		code    string
	}{
		{"an accept by another agent", scout, alice, answerPayload("accept", addressed.handoff), 403, "wrong_sender"},
		{"a cancel by the offeree", tw.finn, alice, answerPayload("cancel", addressed.handoff), 403, "wrong_sender"},
		{"progress of what nobody accepted", tw.finn, alice, answerPayload("progress", addressed.handoff), 409, "illegal_step"},
		{"a claim without the skill", scout, alice, answerPayload("claim", open.handoff), 403, "missing_capability"},
		{"a verb that is none", tw.finn, alice, answerPayload("fly", addressed.handoff), 400, "unsupported_payload"},
		{"an expiry by an agent", tw.finn, alice, answerPayload("expire", addressed.handoff), 400, "unsupported_payload"},
		{"a handoff that nobody knows", tw.finn, alice, answerPayload("accept", ulid.Make().String()), 404, "unknown_handoff"},
		{"two handoffs", tw.finn, alice, payload("ack", map[string]any{"replyTo": another.handoff, "status": "received", "handoff": map[string]any{"id": addressed.handoff}}), 400, "bad_request"},
		{"an answer to somebody else", tw.finn, handleOf(newPerson(t).did), answerPayload("accept", addressed.handoff), 404, "identity_not_found"},
		{"a type that is no step", tw.finn, alice, payload("weather", map[string]any{}), 400, "unsupported_payload"},
		{"an offer without a title", tw.finn, alice, payload("task:request", map[string]any{}), 400, "bad_request"},
		{"an offer due in a year", tw.finn, alice, payload("task:request", map[string]any{"description": "x", "deadline": time.Now().AddDate(1, 0, 0).Unix()}), 400, "bad_request"},
		{"a proof of other bytes", tw.finn, alice, self(forged), 401, "invalid_signature"},
		{"a proof for another place", tw.finn, alice, self(accept("#elsewhere")), 403, "wrong_venue"},
		{"a proof with an old id", tw.finn, alice, self(old), 401, "invalid_timestamp"},
		{"a member __proto__", tw.finn, alice, payload("ack", map[string]any{"replyTo": addressed.handoff, "status": "received", "__proto__": map[string]any{}}), 400, "bad_request"},
		{"a member constructor", tw.finn, alice, payload("ack", map[string]any{"replyTo": addressed.handoff, "status": "received", "x": map[string]any{"constructor": 1}}), 400, "bad_request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := printError(t, tt.from, tt.to, tt.payload)
			if got.Status != tt.status || got.Error != tt.code || got.Message == "" {
				t.Errorf("answered %+v, want %d %s", got, tt.status, tt.code)
			}
		})
	}
	tw.terminal(t, addressed)
}

// terminal checks that nothing follows the end, and that the handoff is as it was.
func (tw *twin) terminal(t *testing.T, addressed signed) {
	t.Helper()
	for i, want := range []string{"201 declined", "409 terminal_handoff declined"} {
		got, _ := printError(t, tw.finn, handleOf(tw.key.did), answerPayload("decline", addressed.handoff))
		text := strings.Join(strings.Fields(fmt.Sprint(got.Status, " ", got.Error, " ", got.Handoff.State)), " ")
		if text != want {
			t.Errorf("decline %d is answered %+v, want %s", i, got, want)
		}
	}
	rfcTags.await(t, tw.alice, "decline", addressed.handoff)
}
