package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// A lying step is a step in tags that no network may take.
type lyingStep struct {
	name   string
	step   taggedStep
	target string
	want   federation.RefusalCode
}

// A scene is the context of lying steps: the party that sends them, and an offer that
// an honest party filed.
type scene struct {
	dialect federation.Dialect
	liar    party
	honest  party
	filed   taggedStep
	to      federation.DID
}

// lyingSteps returns the steps of a lie, in both dialects for a lie that exists in each.
func (c scene) lyingSteps(t *testing.T, l lie) []lyingStep {
	t.Helper()
	switch l {
	case lieWeakKey:
		return c.byWeakKeys(t)
	case lieOtherIdentity:
		return c.asOthers(t)
	case lieReplayed:
		return c.again(t)
	case lieTampered:
		return c.changed(t)
	case lieDoubled:
		return c.twice(t)
	case lieMisshapen, lieOversize, lieTraversal, lieInvisible:
		return c.malformed(t, l)
	case lieMisaddressed:
		return c.elsewhere(t)
	case lieForgedOrigin:
		return c.forHomes(t)
	case lieBadToken, lieForeignHost, lieConnect, lieSlow:
	}
	return nil
}

func (c scene) offer(t *testing.T, changes map[string]string) taggedStep {
	t.Helper()
	return c.liar.offer(t, c.dialect, c.to, changes)
}

func (c scene) field(name string) string { return field(c.dialect, name) }

func (c scene) byWeakKeys(t *testing.T) []lyingStep {
	t.Helper()
	var all []lyingStep
	for _, weak := range weakParties(t) {
		all = append(all, lyingStep{"key " + weak.String(), weak.offer(t, c.dialect, c.to, nil), channelOfStage, federation.InvalidTag})
	}
	return all
}

func (c scene) asOthers(t *testing.T) []lyingStep {
	t.Helper()
	posing := party{c.liar.secret, c.honest.public, c.honest.did} // signs with its own key under the key id of the honest party
	poses := func(verb string) taggedStep {
		return posing.sealAnyhow(t, c.dialect, channelOfStage, func(id string) map[string]string {
			if verb == "offer" {
				return offerFields(c.dialect, posing, id, c.to, "Forged")
			}
			return stepFields(c.dialect, posing, verb, c.filed.id)
		})
	}
	return []lyingStep{
		{"an offer under the DID of another party", poses("offer"), channelOfStage, federation.SignatureInvalid},
		{"a cancel under the DID of the offerer", poses("cancel"), channelOfStage, federation.SignatureInvalid},
		{"a cancel of the handoff of another party", c.liar.step(t, c.dialect, "cancel", c.filed.id), channelOfStage, federation.WrongSender},
		{"an accept of an offer to another party", c.liar.step(t, c.dialect, "accept", c.filed.id), channelOfStage, federation.WrongSender},
	}
}

func (c scene) again(t *testing.T) []lyingStep {
	t.Helper()
	reused := c.liar.seal(t, c.dialect, channelOfStage, func(string) map[string]string { return nil }, nil)
	reused.id, reused.fields = c.filed.id, offerFields(c.dialect, c.liar, c.filed.id, c.to, "Other work under the same id")
	reused = c.liar.resign(t, c.dialect, reused)
	return []lyingStep{
		{"the offer of another party in private", c.filed, "Baton", federation.SignatureInvalid},
		{"the event id of another party", reused, channelOfStage, federation.EventIDInUse},
	}
}

func (c scene) changed(t *testing.T) []lyingStep {
	t.Helper()
	title := map[federation.Dialect]string{federation.ActTags: "act-title", federation.HandoffTags: "handoff-task"}[c.dialect]
	signature := c.offer(t, nil)
	sig := signature.tags["+freeq.at/sig"]
	return []lyingStep{
		{"another title", c.offer(t, nil).with(map[string]string{title: "Send three coins"}), channelOfStage, federation.SignatureInvalid},
		{"another recipient", c.offer(t, nil).with(map[string]string{c.field("to"): string(c.liar.did)}), channelOfStage, federation.SignatureInvalid},
		{"a member added", c.offer(t, nil).with(map[string]string{c.field("x-more"): "1"}), channelOfStage, federation.SignatureInvalid},
		{"a byte of the signature", signature.with(map[string]string{"sig": sig[:len(sig)-10] + flip(sig[len(sig)-10:])}), channelOfStage, federation.SignatureInvalid},
		{"the signature of another step", c.offer(t, nil).with(map[string]string{"sig": sig}), channelOfStage, federation.SignatureInvalid},
		{"no signature", c.offer(t, nil).with(map[string]string{"sig": ""}), channelOfStage, federation.NeedSignature},
	}
}

func (c scene) twice(t *testing.T) []lyingStep {
	t.Helper()
	other := map[federation.Dialect]string{federation.ActTags: "handoff", federation.HandoffTags: "act-verb"}[c.dialect]
	return []lyingStep{
		{"tags of both dialects", c.offer(t, nil).with(map[string]string{other: "offer"}), channelOfStage, federation.MixedTags},
		{"a tag in two spellings", c.offer(t, nil).spelt("freeq.at/" + string(c.dialect)), channelOfStage, federation.DuplicateTag},
	}
}

// spelt returns a step with one more tag, spelt as it stands.
func (s taggedStep) spelt(name string) taggedStep {
	s = s.with(nil)
	s.tags[name] = "offer"
	return s
}

// malformed returns offers with one field that no reader takes, signed as they stand.
func (c scene) malformed(t *testing.T, l lie) []lyingStep {
	t.Helper()
	title := map[federation.Dialect]string{federation.ActTags: "act-title", federation.HandoffTags: "handoff-task"}[c.dialect]
	ctx := map[federation.Dialect]string{federation.ActTags: "act-ctx", federation.HandoffTags: "handoff-context"}[c.dialect]
	type wrong struct {
		lie               lie
		name, field, text string
		want              federation.RefusalCode
	}
	var all []lyingStep
	for _, w := range []wrong{
		{lieMisshapen, "a context that is no JSON", ctx, `{"a":`, federation.InvalidContext},
		{lieMisshapen, "a context at a file", ctx, "file:///etc/passwd", federation.InvalidContext},
		{lieMisshapen, "a deadline that is no number", c.field("deadline"), "soon", federation.InvalidTag},
		{lieMisshapen, "a deadline in a thousand years", c.field("deadline"), "33000000000", federation.InvalidTag},
		{lieMisshapen, "capabilities with spaces", c.field("caps"), "a b,c", federation.InvalidTag},
		{lieOversize, "a title of 301 bytes", title, strings.Repeat("x", 301), federation.InvalidTag},
		{lieOversize, "17 capabilities", c.field("caps"), strings.Repeat("c,", 16) + "c", federation.InvalidTag},
		{lieTraversal, "a recipient with dots", c.field("to"), "did:web:../../etc/passwd", federation.InvalidTag},
		{lieTraversal, "a recipient with escaped dots", c.field("to"), "did:web:%2e%2e%2fetc", federation.InvalidTag},
		{lieInvisible, "an escape sequence in the title", title, "\x1b[2Jclean", federation.InvalidTag},
		{lieInvisible, "a newline in the title", title, "one\ntwo", federation.InvalidTag},
	} {
		if w.lie == l {
			all = append(all, lyingStep{w.name, c.offer(t, map[string]string{w.field: w.text}), channelOfStage, w.want})
		}
	}
	if l == lieTraversal {
		id := map[federation.Dialect]string{federation.ActTags: "act-id", federation.HandoffTags: "handoff-id"}[c.dialect]
		verb := map[federation.Dialect]string{federation.ActTags: "act-verb", federation.HandoffTags: "handoff"}[c.dialect]
		accept := c.liar.step(t, c.dialect, "accept", c.filed.id)
		all = append(
			all,
			lyingStep{"dots for a handoff", accept.with(map[string]string{id: "../../../etc/passwd"}), channelOfStage, federation.InvalidTag},
			lyingStep{"dots for a verb", accept.with(map[string]string{verb: "../cancel"}), channelOfStage, federation.UnknownVerb},
			lyingStep{"dots for an event", accept.with(map[string]string{"eventid": "../../../etc/passwd"}), channelOfStage, federation.InvalidEventID},
		)
	}
	return all
}

func (c scene) elsewhere(t *testing.T) []lyingStep {
	t.Helper()
	other := c.liar.seal(t, c.dialect, "#elsewhere", func(id string) map[string]string {
		return offerFields(c.dialect, c.liar, id, c.to, "For another channel")
	}, nil)
	return []lyingStep{
		{"signed for another channel", other, channelOfStage, federation.SignatureInvalid},
		{"some members of a channel", c.offer(t, nil), "@" + channelOfStage, federation.InvalidTarget},
		{"a nick that no one has", c.offer(t, nil), "nobody", federation.InvalidTarget},
		{"a handoff that is not there", c.liar.step(t, c.dialect, "accept", c.offer(t, nil).id), channelOfStage, federation.UnknownHandoff},
	}
}

// forHomes returns signed steps with the fields that only a home may write.
func (c scene) forHomes(t *testing.T) []lyingStep {
	t.Helper()
	hash := "sha256:" + strings.Repeat("ab", 32)
	var all []lyingStep
	for name, changes := range map[string]map[string]string{
		"for another DID":         {c.field("for"): string(c.honest.did)},
		"evidence":                {c.field("src"): "https://gw.test/evidence/" + strings.Repeat("ab", 32), c.field("src-h"): hash},
		"a hash of evidence":      {c.field("src-h"): hash},
		"evidence elsewhere":      {c.field("src"): "https://elsewhere.test/evidence", c.field("src-h"): hash},
		"evidence for another":    {c.field("for"): string(c.honest.did), c.field("src"): "https://gw.test/x", c.field("src-h"): hash},
		"evidence without a hash": {c.field("src"): "https://gw.test/evidence/x"},
	} {
		all = append(all, lyingStep{name, c.offer(t, changes), channelOfStage, federation.InvalidTag})
	}
	return all
}

// unseen are titles with invisible characters other than control characters: they are
// part of the signed text, so that the step is filed, but shown without.
func unseen() map[string]string {
	return map[string]string{
		"bidi override":       "pay \u202e001 coins",
		"bidi isolate":        "pay \u2066001\u2069 coins",
		"zero width":          "pa\u200by 001 c\u200coi\ufeffns",
		"line separator":      "pay\u2028001 coins",
		"paragraph separator": "pay\u2029001 coins",
		"tag characters":      "pay 001\U000e0041\U000e0042 coins",
	}
}

// hidden reports whether a text has a character that people do not see.
func hidden(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r == 0x7f || strings.ContainsRune("\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\ufeff", r) ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 && r <= 0xe007f
	})
}

// answerTime is how long an attempt waits for its refusal.
const answerTime = 5 * time.Second
