package lifecycle

import (
	_ "embed" // kinds.json
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

//go:embed kinds.json
var shipped []byte

const fileVersion = 1

type file struct {
	Version int                         `json:"version"`
	Windows map[federation.Clock]string `json:"windows"`
	Kinds   map[federation.Kind]table   `json:"kinds"`
}

// Shipped returns the built-in kinds: "handoff", whose rules differ by dialect, and "bounty".
func Shipped() Kinds {
	k, err := Parse(shipped)
	if err != nil {
		panic("lifecycle: kinds.json: " + err.Error()) // it is compiled in, and a test reads it
	}
	return k
}

// Parse reads a file of tables. The error names the first unknown, malformed or contradictory
// member, such as a rule from an unreachable state.
func Parse(text []byte) (Kinds, error) {
	if err := federation.ExactJSON(text); err != nil {
		return Kinds{}, fmt.Errorf("parse kinds: %w", err)
	}
	var f file
	if err := federation.DecodeStrictJSON(text, &f); err != nil {
		return Kinds{}, fmt.Errorf("parse kinds: %w", err)
	}
	if f.Version != fileVersion {
		return Kinds{}, fmt.Errorf("parse kinds: version %d, want %d", f.Version, fileVersion)
	}
	k := Kinds{tables: f.Kinds, windows: make(map[federation.Clock]time.Duration)}
	for clock, text := range f.Windows {
		window, err := time.ParseDuration(text)
		if err != nil || window <= 0 || !federation.ValidName(string(clock)) || slices.Contains(operatorClocks(), clock) {
			return Kinds{}, fmt.Errorf("parse kinds: windows.%s: want a clock of its own, and more than 0s", clock)
		}
		k.windows[clock] = window
	}
	for kind, t := range k.tables {
		if !federation.ValidName(string(kind)) {
			return Kinds{}, fmt.Errorf("parse kinds: %q is not a name", kind)
		}
		if err := k.check(t); err != nil {
			return Kinds{}, fmt.Errorf("parse kinds: %s: %w", kind, err)
		}
	}
	return k, nil
}

func operatorClocks() []federation.Clock {
	return []federation.Clock{federation.DeadlineClock, federation.UnansweredClock, federation.AbandonedClock}
}

func (k Kinds) check(t table) error {
	if t.Opens.Directed == "" && t.Opens.Open == "" {
		return errors.New("opens: nothing")
	}
	states := t.reached()
	for _, s := range states {
		if !federation.ValidName(string(s)) {
			return fmt.Errorf("%q is not a name of a state", s)
		}
	}
	for _, s := range t.Over {
		if !slices.Contains(states, s) {
			return fmt.Errorf("over: %q is unreachable", s)
		}
	}
	if slices.Contains(t.Over, t.Opens.Directed) || slices.Contains(t.Over, t.Opens.Open) {
		return errors.New("opens: it is over at once")
	}
	for i, r := range t.Rules {
		if err := t.checkRule(r, t.Rules[:i]); err != nil {
			return fmt.Errorf("rules[%d]: %w", i, err)
		}
	}
	for i, w := range t.Waits {
		if err := k.checkWait(t, w, t.Waits[:i]); err != nil {
			return fmt.Errorf("waits[%d]: %w", i, err)
		}
	}
	return nil
}

func (t table) reached() []federation.State {
	var states []federation.State
	for _, s := range []federation.State{t.Opens.Directed, t.Opens.Open} {
		if s != "" {
			states = append(states, s)
		}
	}
	for _, r := range t.Rules {
		states = append(states, r.To)
	}
	return states
}

// A step must be able to follow each state.
func (t table) live(states []federation.State) error {
	for _, s := range states {
		if !slices.Contains(t.reached(), s) {
			return fmt.Errorf("%q is unreachable", s)
		}
		if slices.Contains(t.Over, s) {
			return fmt.Errorf("it is over in %q", s)
		}
	}
	if len(states) == 0 {
		return errors.New("no state")
	}
	return nil
}

func (t table) checkRule(r Rule, earlier []Rule) error {
	twice := func(other Rule) bool {
		return other.Verb == r.Verb && (other.Dialect == r.Dialect || other.Dialect == "" || r.Dialect == "")
	}
	switch {
	case !federation.ValidName(string(r.Verb)):
		return fmt.Errorf("%q is not a name of a verb", r.Verb)
	case r.Verb == federation.Offer || r.Verb == federation.Confirm:
		return fmt.Errorf("every kind has %s, and no row for it", r.Verb)
	case slices.ContainsFunc(earlier, twice):
		return fmt.Errorf("a second row for %s", r.Verb)
	case !slices.Contains([]federation.Role{federation.Offerer, federation.Offeree, federation.Assignee, federation.Anyone, federation.System}, r.Who):
		return fmt.Errorf("who: there is no %q", r.Who)
	case !slices.Contains([]federation.Dialect{"", federation.HandoffTags, federation.ActTags}, r.Dialect):
		return fmt.Errorf("dialect: there is no %q", r.Dialect)
	case !slices.Contains([]Term{"", ByDeadline, ByBidDeadline}, r.By):
		return fmt.Errorf("by: there is no %q", r.By)
	case r.Accepts != "" && !slices.ContainsFunc(t.Rules, func(other Rule) bool { return other.Verb == r.Accepts }):
		return fmt.Errorf("accepts: there is no %q", r.Accepts)
	}
	return t.live(r.From)
}

func (k Kinds) checkWait(t table, w wait, earlier []wait) error {
	if err := t.live(w.In); err != nil {
		return err
	}
	if _, own := k.windows[w.Clock]; !own && w.Clock != federation.UnansweredClock && w.Clock != federation.AbandonedClock {
		return fmt.Errorf("clock: %q has no window", w.Clock)
	}
	for _, s := range w.In {
		if slices.ContainsFunc(earlier, func(other wait) bool { return slices.Contains(other.In, s) }) {
			return fmt.Errorf("a second clock in %q", s)
		}
		for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
			if !t.ends(s, d, w.Then) {
				return fmt.Errorf("then: the home cannot end it by %q in %q", w.Then, s)
			}
		}
	}
	return nil
}

// A verb that leads to a non-final state could run out repeatedly.
func (t table) ends(s federation.State, d federation.Dialect, verb federation.Verb) bool {
	return slices.ContainsFunc(t.Rules, func(r Rule) bool {
		return r.Verb == verb && r.Who == federation.System && (r.Dialect == "" || r.Dialect == d) &&
			slices.Contains(r.From, s) && slices.Contains(t.Over, r.To)
	})
}
