package server

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"baton/bridge/operatorapi/contract"
	"baton/configs"
	"baton/federation/home"
	"baton/federation/lifecycle"
)

// homePolicy returns the policy of a configuration. It adds mistakes in its rules to the
// mistakes of the file. The links are as for [boundNames].
func homePolicy(file *configs.File, links map[string]bool) home.Policy {
	var peers []string
	if links != nil {
		peers = append(slices.Collect(maps.Keys(links)), OperatorLink)
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

// Policy returns the rules and limits that hold now.
func (s *Server) Policy() contract.Policy {
	s.changing.Lock() // reading a table notes that it was read
	defer s.changing.Unlock()
	return policyOf(s.limited)
}

// policyOf returns the rules and limits of a configuration without mistakes, with their lines.
func policyOf(file *configs.File) contract.Policy {
	var policy contract.Policy
	for i, t := range file.Tables("policy.rules") {
		table := configs.Rule{Require: string(home.RequireSigned)}
		t.Decode(&table)
		rule := ruleOf(table)
		rule.File, rule.Line = file.Name(), file.Line(fmt.Sprintf("policy.rules[%d]", i))
		policy.Rules = append(policy.Rules, rule)
	}
	last := ruleOf(configs.Rule{Require: file.Policy.Require})
	last.File, last.Line = lineOf(file, "policy.require")
	policy.Rules = append(policy.Rules, last)
	limits := reflect.ValueOf(file.Limits)
	for field, value := range limits.Fields() {
		key := field.Tag.Get("toml")
		limit := contract.PolicyLimit{Key: key, Value: fmt.Sprint(value.Interface())}
		limit.File, limit.Line = lineOf(file, "limits."+key)
		policy.Limits = append(policy.Limits, limit)
	}
	return policy
}

// lineOf returns where a key is set, and nothing for a default.
func lineOf(file *configs.File, key string) (name string, line int) {
	if line = file.Line(key); line == 0 {
		return "", 0
	}
	return file.Name(), line
}

// ruleOf returns a rule as it is shown: an empty list is no null.
func ruleOf(table configs.Rule) contract.PolicyRule {
	list := func(items []string) []string { return append([]string{}, items...) }
	return contract.PolicyRule{
		Verbs: list(table.Verbs), Peers: list(table.Peers), Recipients: list(table.Recipients), Senders: list(table.Senders), Require: table.Require,
	}
}
