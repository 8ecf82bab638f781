package home

import (
	"fmt"
	"slices"
	"strings"

	"baton/federation"
	"baton/federation/lifecycle"
)

// RuleText is a [Rule] as a configuration has it.
type RuleText struct{ Verbs, Peers, Recipients, Senders []string }

// ParseRule returns a rule, and the mistakes in its text. The peers are the names that a rule may
// have; nil admits every name.
func ParseRule(text RuleText, require Requirement, kinds lifecycle.Kinds, peers []string) (Rule, []federation.Mistake) {
	rule := Rule{Peers: text.Peers, Require: require}
	var mistakes []federation.Mistake
	add := func(key, why string) { mistakes = append(mistakes, federation.Mistake{Key: key, Why: why}) }
	for _, name := range text.Verbs {
		rule.Verbs = append(rule.Verbs, federation.Verb(name))
		if !kinds.HasVerb(federation.Verb(name)) {
			add("verbs", fmt.Sprintf("nobody takes a step %q", name))
		}
	}
	for _, name := range text.Peers {
		if peers != nil && !slices.Contains(peers, name) {
			add("peers", fmt.Sprintf("want names of links: %s; not %q", strings.Join(slices.Sorted(slices.Values(peers)), ", "), name))
		}
	}
	dids := func(key string, names []string) []federation.DID {
		parsed := make([]federation.DID, len(names))
		for i, name := range names {
			var err error
			if parsed[i], err = federation.ParseDID(name); err != nil {
				add(key, fmt.Sprintf("want DIDs, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa; not %q", name))
			}
		}
		return parsed
	}
	rule.Recipients, rule.Senders = dids("recipients", text.Recipients), dids("senders", text.Senders)
	switch require {
	case RequireSigned, RequireVouched, RequireNothing, Deny:
	default:
		add("require", `want "signed", "vouched", "nothing" or "deny"`)
	}
	return rule, mistakes
}
