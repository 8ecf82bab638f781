package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"baton/bridge/gateway"
	"baton/configs"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/lifecycle"
)

// homePolicy returns the policy of a configuration. Mistakes in its rules are added
// to those of the file. The links are those of [boundNames].
func homePolicy(file *configs.File, links map[string]bool) home.Policy {
	policy := home.Policy{Require: home.Requirement(file.Policy.Require)}
	for _, t := range file.Tables("policy.rules") {
		table := configs.Rule{Require: string(home.RequireSigned)}
		t.Decode(&table)
		policy.Rules = append(policy.Rules, home.Rule{
			Verbs: ruleVerbs(t, table.Verbs), Peers: rulePeers(t, table.Peers, links),
			Recipients: ruleDIDs(t, "recipients", table.Recipients), Senders: ruleDIDs(t, "senders", table.Senders),
			Require: home.Requirement(table.Require),
		})
		switch home.Requirement(table.Require) {
		case home.RequireSigned, home.RequireVouched, home.RequireNothing, home.Deny:
		default:
			t.Mistake("require", `want "signed", "vouched", "nothing" or "deny"`)
		}
	}
	return policy
}

func ruleVerbs(t configs.Table, names []string) []federation.Verb {
	kinds, verbs := lifecycle.Shipped(), make([]federation.Verb, len(names))
	for i, name := range names {
		if verbs[i] = federation.Verb(name); !kinds.HasVerb(verbs[i]) {
			t.Mistake("verbs", fmt.Sprintf("nobody takes a step %q", name))
		}
	}
	return verbs
}

func rulePeers(t configs.Table, names []string, links map[string]bool) []string {
	for _, name := range names {
		if links != nil && !links[name] && name != gateway.OperatorLink {
			known := append(slices.Collect(maps.Keys(links)), gateway.OperatorLink)
			t.Mistake("peers", fmt.Sprintf("want names of links: %s; not %q", strings.Join(slices.Sorted(slices.Values(known)), ", "), name))
		}
	}
	return names
}

// ruleDIDs reads a list of DIDs of a rule.
func ruleDIDs(t configs.Table, key string, names []string) []federation.DID {
	dids := make([]federation.DID, len(names))
	for i, name := range names {
		var err error
		if dids[i], err = federation.ParseDID(name); err != nil {
			t.Mistake(key, fmt.Sprintf("want DIDs, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa; not %q", name))
		}
	}
	return dids
}
