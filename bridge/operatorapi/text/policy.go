package text

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"baton/bridge/operatorapi/contract"
)

// Policy writes the rules in the order in which they are tried, then the limits.
func Policy(out io.Writer, policy contract.Policy) error {
	rules := Table[contract.PolicyRule]{
		Header: "VERBS | PEERS | SENDERS | RECIPIENTS | REQUIRE | FROM",
		Row: func(r contract.PolicyRule) []string {
			return []string{anyOf(r.Verbs), anyOf(r.Peers), anyOf(r.Senders), anyOf(r.Recipients), r.Require, place(r.File, r.Line)}
		},
	}
	if err := rules.Print(out, true, policy.Rules...); err != nil {
		return err
	}
	fmt.Fprintln(out)
	limits := Table[contract.PolicyLimit]{
		Header: "LIMIT | VALUE | FROM",
		Row:    func(l contract.PolicyLimit) []string { return []string{l.Key, l.Value, place(l.File, l.Line)} },
	}
	return limits.Print(out, true, policy.Limits...)
}

// anyOf returns a list in which no item means any.
func anyOf(items []string) string {
	if len(items) == 0 {
		return "any"
	}
	return strings.Join(items, ",")
}

// place returns the line that a key comes from.
func place(file string, line int) string {
	if line == 0 {
		return "default"
	}
	return file + ":" + strconv.Itoa(line)
}
