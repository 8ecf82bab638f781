package lifecycle_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
)

// approval is a file of one kind that does not ship.
const approval = `{"version": 1, "windows": {"notice": "1h"}, "kinds": {"approval": {
	"opens": {"directed": "asked"}, "over": ["granted", "lapsed"],
	"rules": [
		{"verb": "grant", "from": ["asked"], "who": "offeree", "to": "granted", "by": "deadline"},
		{"verb": "lapse", "from": ["asked"], "who": "system", "to": "lapsed"}],
	"waits": [{"in": ["asked"], "clock": "notice", "then": "lapse"}]}}}`

func TestParseRefusesContradictions(t *testing.T) {
	if _, err := lifecycle.Parse([]byte(approval)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, changed, want string }{
		"no JSON":                          {`"version"`, `version`, "invalid character"},
		"a member twice":                   {`"version": 1`, `"version": 1, "version": 1`, "version"},
		"a member that nobody knows":       {`"who": "system"`, `"whom": "system"`, "whom"},
		"another version":                  {`"version": 1`, `"version": 2`, "version 2"},
		"a kind that is no name":           {`"approval"`, `"Approval"`, "not a name"},
		"a window of no length":            {`"1h"`, `"0s"`, "windows.notice"},
		"a window in words":                {`"1h"`, `"soon"`, "windows.notice"},
		"a window of the operator's":       {`"notice": "1h"`, `"abandoned": "1h"`, "windows.abandoned"},
		"nothing opens":                    {`{"directed": "asked"}`, `{}`, "opens"},
		"over at once":                     {`"over": [`, `"over": ["asked", `, "over at once"},
		"an end that nothing leads to":     {`"over": [`, `"over": ["lost", `, `"lost"`},
		"a state that is no name":          {`"to": "granted"`, `"to": "Granted!"`, "not a name"},
		"a verb that is no name":           {`"verb": "grant"`, `"verb": ""`, "not a name"},
		"a row for the offer":              {`"verb": "grant"`, `"verb": "offer"`, "offer"},
		"a row for the receipt":            {`"verb": "grant"`, `"verb": "confirm"`, "confirm"},
		"a second row for a verb":          {`"verb": "lapse", "from"`, `"verb": "grant", "from"`, "second row"},
		"a row from nowhere":               {`"from": ["asked"], "who": "offeree"`, `"from": [], "who": "offeree"`, "no state"},
		"a row from what nobody reaches":   {`"from": ["asked"], "who": "offeree"`, `"from": ["lost"], "who": "offeree"`, `"lost"`},
		"a row from an end":                {`"from": ["asked"], "who": "offeree"`, `"from": ["lapsed"], "who": "offeree"`, "over"},
		"a role that nobody plays":         {`"offeree"`, `"boss"`, "boss"},
		"a dialect that is none":           {`"by": "deadline"`, `"dialect": "latin"`, "latin"},
		"a term that offers have not":      {`"by": "deadline"`, `"by": "noon"`, "noon"},
		"accepting what cannot be done":    {`"by": "deadline"`, `"accepts": "bid"`, "bid"},
		"a clock without window":           {`"clock": "notice"`, `"clock": "tea"`, "tea"},
		"a clock in an end":                {`"in": ["asked"]`, `"in": ["granted"]`, "over"},
		"a second clock in one state":      {`"waits": [`, `"waits": [{"in": ["asked"], "clock": "abandoned", "then": "lapse"}, `, "second clock"},
		"an end that is not the home's":    {`"then": "lapse"`, `"then": "grant"`, "grant"},
		"a home's step that does not end":  {`"over": ["granted", "lapsed"]`, `"over": ["granted"]`, "cannot end"},
		"something after the last bracket": {`}]}}}`, `}]}}} {}`, "after top-level value"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(approval, test.old, test.changed, 1)
			if text == approval {
				t.Fatal("nothing was changed")
			}
			if _, err := lifecycle.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one about %q", err, test.want)
			}
		})
	}
}

// A table that Parse accepts never makes a decision panic.
func FuzzParse(f *testing.F) {
	shipped, err := os.ReadFile("kinds.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(shipped))
	f.Add(approval)
	f.Fuzz(func(t *testing.T, text string) {
		kinds, err := lifecycle.Parse([]byte(text))
		if err != nil {
			return
		}
		for clock, window := range kinds.Windows() {
			if window <= 0 || clock == "" {
				t.Errorf("the clock %q runs for %s", clock, window)
			}
		}
		for _, to := range []string{"", string(offeree)} {
			walk(t, kinds, text, to)
		}
	})
}

func walk(t *testing.T, kinds lifecycle.Kinds, text, to string) {
	t.Helper()
	for _, kind := range []federation.Kind{federation.Handoff, "bounty", "approval"} {
		offer := federation.Event{
			ID: federation.EventID{1}, Handoff: federation.EventID{1}, Kind: kind, Verb: federation.Offer, From: offerer, To: federation.DID(to),
		}
		v, err := kinds.Open(offer, "gw.example", time.Unix(0, 0))
		if err != nil || v.Clock == "" {
			continue
		}
		end := federation.Event{Kind: kind, Verb: kinds.Then(v), From: gateway}
		if after, err := kinds.Check(v, end, time.Unix(0, 0)); err != nil || !after.Over {
			t.Errorf("the home cannot end a %s in %s by %q: %v, with\n%s", kind, v.State, end.Verb, err, text)
		}
	}
}
