package irc_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate"
)

// smuggled is a text with an escape sequence, a false line end, a name in another order and
// an order in characters that no reader sees.
const smuggled = "pay\x1b[31m \u2028bob\u2029\u200b\u2060\ufeff \u202eecila\u202c\u00ad now\U000E0069\U000E0067\U000E006E"

func TestSummaryHidesNothing(t *testing.T) {
	ev := federation.Event{Kind: federation.Handoff, Verb: federation.Offer, Handoff: federationtest.ID(1), Title: smuggled, Note: smuggled, From: "did:example:a"}
	line := irc.Summary(translate.Step{Entry: federation.Entry{Event: ev}, View: federation.View{Title: smuggled}, Name: func(did federation.DID) string { return string(did) }})
	if clean := federation.PlainText(line); clean != line || !strings.Contains(line, "pay[31m  bob  ecila now") {
		t.Errorf("the line is %q", line)
	}
	if line := irc.Text(smuggled); line != "pay[31m  bob  ecila now" {
		t.Errorf("a notice says %q", line)
	}
}
