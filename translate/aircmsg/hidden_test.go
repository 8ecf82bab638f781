package aircmsg_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

func TestSentenceOfAStepHidesNothing(t *testing.T) {
	const hidden = "pay\x1b[31m \u2028bob\u200b\u202e\U000E0069\U000E0067"
	for _, verb := range []federation.Verb{federation.Offer, federation.Progress, federation.Expire, "award"} {
		step := translate.Step{
			Entry: federation.Entry{Event: federation.Event{Verb: verb, From: "did:example:a", Title: hidden, Note: hidden}},
			View:  federation.View{Title: hidden, Caps: []string{"x"}},
			Name:  func(federation.DID) string { return hidden },
		}
		if said := aircmsg.Sentence(step); said != federation.PlainText(said) {
			t.Errorf("%s: %q", verb, said)
		}
	}
}
