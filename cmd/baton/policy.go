package main

import (
	"maps"
	"slices"

	"baton/bridge/gateway"
	"baton/configs"
	"baton/federation/home"
	"baton/federation/lifecycle"
)

// homePolicy returns the policy of a configuration. It adds mistakes in its rules to the
// mistakes of the file. The links are as for [boundNames].
func homePolicy(file *configs.File, links map[string]bool) home.Policy {
	var peers []string
	if links != nil {
		peers = append(slices.Collect(maps.Keys(links)), gateway.OperatorLink)
	}
	policy := home.Policy{Require: home.Requirement(file.Policy.Require)}
	for _, t := range file.Tables("policy.rules") {
		table := configs.Rule{Require: string(home.RequireSigned)}
		t.Decode(&table)
		text := home.RuleText{Verbs: table.Verbs, Peers: table.Peers, Recipients: table.Recipients, Senders: table.Senders}
		rule, mistakes := home.ParseRule(text, home.Requirement(table.Require), lifecycle.Shipped(), peers)
		for _, m := range mistakes {
			t.Mistake(m.Key, m.Why)
		}
		policy.Rules = append(policy.Rules, rule)
	}
	return policy
}
