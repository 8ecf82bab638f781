package home_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
	"baton/federation/home"
	"baton/federation/lifecycle"
)

func TestTheTextOfARuleHasEachMistake(t *testing.T) {
	t.Parallel()
	bob := "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
	text := home.RuleText{Verbs: []string{"offer"}, Peers: []string{"lab"}, Recipients: []string{bob}}
	rule, mistakes := home.ParseRule(text, home.Deny, lifecycle.Shipped(), []string{"lab"})
	want := home.Rule{
		Verbs: []federation.Verb{federation.Offer}, Peers: []string{"lab"}, Recipients: []federation.DID{federation.DID(bob)},
		Senders: []federation.DID{}, Require: home.Deny,
	}
	if diff := cmp.Diff(want, rule); diff != "" || len(mistakes) > 0 {
		t.Errorf("%v (-want +got):\n%s", mistakes, diff)
	}
	wrong := home.RuleText{Verbs: []string{"juggle"}, Peers: []string{"else"}, Senders: []string{"bob"}}
	_, mistakes = home.ParseRule(wrong, "maybe", lifecycle.Shipped(), []string{"lab"})
	var keys []string
	for _, m := range mistakes {
		keys = append(keys, m.Key)
	}
	if diff := cmp.Diff([]string{"verbs", "peers", "senders", "require"}, keys); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, mistakes := home.ParseRule(home.RuleText{Peers: []string{"else"}}, home.Deny, lifecycle.Shipped(), nil); len(mistakes) > 0 {
		t.Errorf("without known links: %v", mistakes)
	}
}
