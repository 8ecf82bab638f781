package home_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/lifecycle"
)

func asVouched(ev *federation.Event) {
	ev.Provenance = federation.Vouched
}

func TestPolicyAppliesTheFirstMatchingRule(t *testing.T) {
	alice, bob := newPerson("alice").did, newPerson("bob").did
	none := func(*federation.Event) {}
	for name, test := range map[string]struct {
		policy home.Policy
		change func(*federation.Event)
		want   federation.RefusalCode
	}{
		"nothing said, vouched":       {home.Policy{}, asVouched, ""},
		"vouched, vouched":            {home.Policy{Require: home.RequireVouched}, asVouched, ""},
		"signed, signed":              {home.Policy{Require: home.RequireSigned}, none, ""},
		"signed, vouched":             {home.Policy{Require: home.RequireSigned}, asVouched, federation.NeedSignature},
		"a rule for all":              {home.Policy{Rules: []home.Rule{{Require: home.Deny}}}, none, federation.PolicyDenied},
		"a rule for the verb":         {home.Policy{Rules: []home.Rule{{Verbs: []federation.Verb{federation.Offer}, Require: home.Deny}}}, none, federation.PolicyDenied},
		"a rule for other verbs":      {home.Policy{Rules: []home.Rule{{Verbs: []federation.Verb{federation.Claim}, Require: home.Deny}}}, none, ""},
		"a rule for the link":         {home.Policy{Rules: []home.Rule{{Peers: []string{"dev", "lab"}, Require: home.Deny}}}, none, federation.PolicyDenied},
		"a rule for other links":      {home.Policy{Rules: []home.Rule{{Peers: []string{"dev"}, Require: home.Deny}}}, none, ""},
		"a rule for the recipient":    {home.Policy{Rules: []home.Rule{{Recipients: []federation.DID{bob}, Require: home.Deny}}}, none, federation.PolicyDenied},
		"a rule for its other DID":    {home.Policy{Rules: []home.Rule{{Recipients: []federation.DID{bob + ":own"}, Require: home.Deny}}}, none, federation.PolicyDenied},
		"a rule for other recipients": {home.Policy{Rules: []home.Rule{{Recipients: []federation.DID{"did:example:x"}, Require: home.Deny}}}, none, ""},
		"a rule for some recipient":   {home.Policy{Rules: []home.Rule{{Recipients: []federation.DID{bob}, Require: home.Deny}}}, func(ev *federation.Event) { ev.To = "" }, ""},
		"a rule for the sender":       {home.Policy{Rules: []home.Rule{{Senders: []federation.DID{alice}, Require: home.Deny}}}, none, federation.PolicyDenied},
		"a rule for who is vouched":   {home.Policy{Rules: []home.Rule{{Senders: []federation.DID{alice}, Require: home.Deny}}}, asVouched, federation.PolicyDenied},
		"a rule for other senders":    {home.Policy{Rules: []home.Rule{{Senders: []federation.DID{bob}, Require: home.Deny}}}, none, ""},
		"a sender and a recipient":    {home.Policy{Rules: []home.Rule{{Senders: []federation.DID{alice}, Recipients: []federation.DID{"did:example:x"}, Require: home.Deny}}}, none, ""},
		"a rule that fits in part":    {home.Policy{Rules: []home.Rule{{Peers: []string{"lab"}, Verbs: []federation.Verb{federation.Claim}, Require: home.Deny}}}, none, ""},
		"the first of two":            {home.Policy{Rules: []home.Rule{{Require: home.RequireVouched}, {Require: home.Deny}}}, asVouched, ""},
		"an exception":                {home.Policy{Require: home.RequireSigned, Rules: []home.Rule{{Peers: []string{"lab"}, Require: home.RequireNothing}}}, asVouched, ""},
		"stricter for some":           {home.Policy{Rules: []home.Rule{{Recipients: []federation.DID{bob}, Require: home.RequireSigned}}}, asVouched, federation.NeedSignature},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.home.Policy = test.policy
			_, err := b.home.Submit(t.Context(), b.step(1, b.alice, federation.Offer, test.change), b.now)
			refused, _ := errors.AsType[*federation.RefusalError](err)
			if (refused == nil) != (test.want == "") || refused != nil && refused.Code != test.want {
				t.Errorf("%v, want %q", err, test.want)
			}
			view, err := b.record.View(t.Context(), b.step(1, b.alice, federation.Offer).ID)
			if err != nil || view.Exists() != (test.want == "") {
				t.Errorf("filed: %v, %v", view.Exists(), err)
			}
		})
	}
}

func TestPolicyLimitsOffersToChannels(t *testing.T) {
	alice, bob := newPerson("alice").did, newPerson("bob").did
	offers := []federation.Verb{federation.Offer}
	for name, test := range map[string]struct {
		member bool
		rules  []home.Rule
		want   federation.RefusalCode
	}{
		"a member":                         {true, nil, ""},
		"no member":                        {false, nil, federation.PolicyDenied},
		"a rule that names the sender":     {false, []home.Rule{{Senders: []federation.DID{alice}, Require: home.RequireSigned}}, ""},
		"a rule that names another sender": {false, []home.Rule{{Senders: []federation.DID{bob}, Require: home.RequireSigned}}, federation.PolicyDenied},
		"a rule for offers of the link":    {false, []home.Rule{{Verbs: offers, Peers: []string{"lab"}, Require: home.RequireSigned}}, ""},
		"a rule for the link":              {false, []home.Rule{{Peers: []string{"lab"}, Require: home.RequireSigned}}, federation.PolicyDenied},
		"a rule for offers":                {false, []home.Rule{{Verbs: offers, Require: home.RequireSigned}}, federation.PolicyDenied},
		"a rule that denies":               {true, []home.Rule{{Senders: []federation.DID{alice}, Require: home.Deny}}, federation.PolicyDenied},
		"another rule first":               {false, []home.Rule{{Require: home.RequireSigned}, {Senders: []federation.DID{alice}}}, federation.PolicyDenied},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.home.Policy.Rules = test.rules
			b.home.Member = func(context.Context, federation.Event) (bool, error) { return test.member, nil }
			_, err := b.home.Submit(t.Context(), b.step(1, b.alice, federation.Offer), b.now)
			refused, _ := errors.AsType[*federation.RefusalError](err)
			if (refused == nil) != (test.want == "") || refused != nil && refused.Code != test.want {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	b := newBench(t)
	b.home.Member = func(context.Context, federation.Event) (bool, error) {
		return false, &federation.UnavailableError{What: "record"}
	}
	_, err := b.home.Submit(t.Context(), b.step(1, b.alice, federation.Offer), b.now)
	if _, later := errors.AsType[*federation.UnavailableError](err); !later {
		t.Errorf("an outage of the record: %v, want unavailable", err)
	}
}

func TestPolicyOfRecipientsAppliesToAnswers(t *testing.T) {
	b := newBench(t)
	b.file(b.step(1, b.alice, federation.Offer))
	b.home.Policy = home.Policy{Rules: []home.Rule{{Recipients: []federation.DID{b.alice.did}, Require: home.Deny}}}
	_, err := b.home.Submit(t.Context(), b.step(2, b.bob, federation.Accept), b.now)
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.PolicyDenied {
		t.Errorf("the answer to alice: %v, want policy-denied", err)
	}
	_, err = b.home.Submit(t.Context(), b.step(3, b.carol, federation.Accept), b.now)
	if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.WrongSender {
		t.Errorf("the answer of a stranger: %v, want wrong-sender, which comes first", err)
	}
	b.file(b.step(4, b.alice, federation.Cancel))
}

func TestPolicyRefusesUnsignedSteps(t *testing.T) {
	for _, require := range []home.Requirement{"", home.RequireSigned, home.RequireVouched, home.RequireNothing, home.Deny} {
		b := newBench(t)
		b.home.Policy = home.Policy{Require: require}
		ev := b.step(1, b.alice, federation.Offer)
		ev.Signature = federation.Signature{}
		_, err := b.home.Submit(t.Context(), ev, b.now)
		if refused, _ := errors.AsType[*federation.RefusalError](err); refused == nil || refused.Code != federation.NeedSignature {
			t.Errorf("with %q: %v, want need-signature", require, err)
		}
	}
}

func TestParseRuleNamesEachMistake(t *testing.T) {
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
