// Package lifecycle decides which step is legal, from which state, and for which role.
//
// The rules are data: one table for each kind of handoff. [Shipped] returns the [Kinds] of the embedded
// file kinds.json, and [Parse] reads other files. [Kinds.Open] and [Kinds.Check] return the view after a
// step, or a refusal. They are pure functions of a view, a step and a time, so that [Kinds.Replay] of a
// log always gives the same view.
//
// # Tables
//
// A file of tables is one JSON object:
//
//	{"version": 1,
//	 "windows": {"notice": "1h"},
//	 "kinds": {"approval": {
//	   "opens": {"directed": "asked"},
//	   "over": ["granted", "lapsed"],
//	   "rules": [{"verb": "grant", "from": ["asked"], "who": "offeree", "to": "granted", "by": "deadline"},
//	             {"verb": "lapse", "from": ["asked"], "who": "system", "to": "lapsed"}],
//	   "waits": [{"in": ["asked"], "clock": "notice", "then": "lapse"}]}}}
//
// An offer opens each kind. "opens" names the state after an offer to a DID ("directed"), and after an
// offer to anyone ("open"); a kind without one of them has no such offer. "over" lists the final states.
// [Rule] describes a row of "rules". A row of "waits" starts a clock in these states, and names the step
// of the home when the clock runs out. The operator sets the clocks of [federation.Clock]; the deadline
// of an offer replaces "unanswered". Any other clock has its length in "windows".
//
// spec: handofftag "Lifecycle"; freeq-act "State machines"
package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Tolerance is the accepted delay of a response after a deadline, because clocks may differ.
const Tolerance = 120 * time.Second

// Term names the deadline of an offer that applies to a step.
type Term string

// The terms.
const (
	ByDeadline    Term = "deadline"
	ByBidDeadline Term = "bid_deadline"
)

// Rule is one row: this verb, from these states, by this role, to that state.
type Rule struct {
	Verb federation.Verb    `json:"verb"`
	From []federation.State `json:"from"`
	Who  federation.Role    `json:"who"`
	To   federation.State   `json:"to"`
	// Dialect restricts the row to handoffs of one dialect; empty for both.
	Dialect federation.Dialect `json:"dialect,omitempty"`
	// By is the term of the step, or "". A term that the offer does not name has no effect.
	By Term `json:"by,omitempty"`
	// Accepts is the verb of the earlier step that this step must name, or "".
	Accepts federation.Verb `json:"accepts,omitempty"`
	// Assigns is true if the actor, or with Accepts the actor of the accepted step, becomes the
	// assignee.
	Assigns bool `json:"assigns,omitempty"`
}

// Kinds is the immutable set of lifecycles of a home, safe for concurrent use. The zero Kinds has
// no kind.
type Kinds struct {
	tables  map[federation.Kind]table
	windows map[federation.Clock]time.Duration
}

type table struct {
	Opens struct {
		Directed federation.State `json:"directed"`
		Open     federation.State `json:"open"`
	} `json:"opens"`
	Over  []federation.State `json:"over"`
	Rules []Rule             `json:"rules"`
	Waits []wait             `json:"waits"`
}

type wait struct {
	In    []federation.State `json:"in"`
	Clock federation.Clock   `json:"clock"`
	Then  federation.Verb    `json:"then"`
}

// Windows returns the fixed durations of clocks, which operators cannot set.
func (k Kinds) Windows() map[federation.Clock]time.Duration {
	windows := make(map[federation.Clock]time.Duration, len(k.windows))
	maps.Copy(windows, k.windows)
	return windows
}

// Known refuses a step of an unknown kind, or with an unknown verb. It checks nothing else, so a
// home may call it before it verifies the signature.
func (k Kinds) Known(ev federation.Event) error {
	t, known := k.tables[ev.Kind]
	if !known {
		return federation.Refuse(ev, federation.UnknownKind, "")
	}
	if ev.Verb != federation.Offer && !slices.ContainsFunc(t.Rules, func(r Rule) bool { return r.Verb == ev.Verb }) {
		return federation.Refuse(ev, federation.UnknownVerb, "")
	}
	return nil
}

// States returns the possible states of handoffs of any kind, in order.
func (k Kinds) States() []federation.State {
	var all []federation.State
	for _, t := range k.tables {
		all = append(all, t.Opens.Directed, t.Opens.Open)
		for _, r := range t.Rules {
			all = append(all, r.To)
		}
	}
	all = slices.DeleteFunc(all, func(s federation.State) bool { return s == "" }) // kinds with only open handoffs
	slices.Sort(all)
	return slices.Compact(all)
}

// HasVerb reports whether any kind allows a verb for a role other than the home.
func (k Kinds) HasVerb(verb federation.Verb) bool {
	for _, t := range k.tables {
		if slices.ContainsFunc(t.Rules, func(r Rule) bool { return r.Verb == verb && r.Who != federation.System }) {
			return true
		}
	}
	return verb == federation.Offer && len(k.tables) > 0
}

// Rule returns the row for a verb in a handoff, if there is one. Without a dialect, the rules of
// the RFC's dialect apply.
func (k Kinds) Rule(v federation.View, verb federation.Verb) (Rule, bool) {
	rules, dialect := k.tables[v.Kind].Rules, cmp.Or(v.Dialect, federation.HandoffTags)
	i := slices.IndexFunc(rules, func(r Rule) bool {
		return r.Verb == verb && (r.Dialect == "" || r.Dialect == dialect)
	})
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// Leads reports whether a verb is possible in the state of a handoff.
func (k Kinds) Leads(v federation.View, verb federation.Verb) bool {
	rule, ok := k.Rule(v, verb)
	return ok && !v.Over && slices.Contains(rule.From, v.State)
}

// Open returns the view of a handoff after the offer that opens it, or a
// [*federation.RefusalError].
func (k Kinds) Open(ev federation.Event, home federation.HomeID, filed time.Time) (federation.View, error) {
	if err := k.Known(ev); err != nil {
		return federation.View{}, err
	}
	state := k.tables[ev.Kind].Opens.Directed
	if ev.To == "" {
		state = k.tables[ev.Kind].Opens.Open
	}
	switch {
	case ev.Verb != federation.Offer:
		return federation.View{}, federation.Refuse(ev, federation.IllegalStep, "the first step must be an offer")
	case ev.ID != ev.Handoff:
		return federation.View{}, federation.Refuse(ev, federation.IllegalStep, "an offer opens, and names no other handoff")
	case state == "" && ev.To != "":
		return federation.View{}, federation.Refuse(ev, federation.IllegalStep, "one of kind "+string(ev.Kind)+" is offered to anyone")
	case state == "":
		return federation.View{}, federation.Refuse(ev, federation.IllegalStep, "one of kind "+string(ev.Kind)+" is offered to one DID")
	}
	v := opened(ev)
	v.State, v.Home, v.Opened = state, home, filed
	return k.moved(v, filed), nil
}

func opened(ev federation.Event) federation.View {
	v := federation.View{
		ID: ev.Handoff, Kind: ev.Kind, Dialect: ev.Dialect, Version: 1,
		Venue: ev.Venue, Offerer: ev.Actor(), Offeree: ev.Offeree(),
		Title: ev.Title, Caps: ev.Caps, Deadline: ev.Deadline, Priority: ev.Priority,
		BidDeadline: ev.BidDeadline, Replaces: ev.Replaces,
	}
	if ev.Arrival.Recipient != "" {
		v.Named = ev.To
	}
	if federation.Private(ev.Venue) {
		v.Link = ev.Arrival.Link
	}
	if place := ev.Arrival.Place; place.Venue != "" && place.Venue != ev.Venue {
		v.Venue, v.Signed = place.Venue, ev.Venue
	}
	if place := ev.Arrival.Place; place.Venue != "" {
		v.Link = place.Link
	}
	return commanded(v, ev)
}

func commanded(v federation.View, ev federation.Event) federation.View {
	if link := ev.Arrival.Link; ev.Arrival.ViaCommand && !slices.Contains(v.Partial, link) {
		v.Partial = append(slices.Clip(v.Partial), link)
	}
	return v
}

// Check returns the view after a step other than an opener, or a [*federation.RefusalError] and the
// view before it. It checks in this order, and the first failure determines the code: the kind has
// the verb; the handoff is open; its state allows the verb; the step names the step that it
// accepts; the actor has the role; the deadline has not passed.
func (k Kinds) Check(v federation.View, ev federation.Event, filed time.Time) (federation.View, error) {
	if err := k.Known(ev); err != nil {
		return v, err
	}
	if ev.Kind != v.Kind {
		return v, refuse(v, ev, federation.IllegalStep, "it is of kind "+string(v.Kind))
	}
	rule, known := k.Rule(v, ev.Verb)
	if !known {
		return v, refuse(v, ev, federation.UnknownVerb, "")
	}
	if err := rule.check(v, ev); err != nil {
		return v, err
	}
	after := v
	after.State = rule.To
	after.Version++
	switch {
	case rule.Assigns && rule.Accepts != "":
		after.Assignee = ev.Arrival.AcceptedFrom
	case rule.Assigns:
		after.Assignee = ev.Actor()
	}
	if rule.To != v.State {
		after = commanded(after, ev)
		if v.Answered == 0 {
			after.Answered = after.Version
		}
	}
	return k.moved(after, filed), nil
}

func (r Rule) check(v federation.View, ev federation.Event) error {
	switch {
	case v.Over:
		return refuse(v, ev, federation.TerminalHandoff, stateDetail(v, r))
	case !slices.Contains(r.From, v.State):
		return refuse(v, ev, federation.IllegalStep, stateDetail(v, r))
	case !ev.Replaces.IsZero():
		return refuse(v, ev, federation.InvalidTag, "only an offer replaces a handoff")
	case r.Accepts != "" && ev.Accepts.IsZero():
		return refuse(v, ev, federation.MissingRequirement, "which "+string(r.Accepts)+" it accepts")
	case r.Accepts != "" && ev.Arrival.AcceptedFrom == "":
		return refuse(v, ev, federation.WrongReference, "what it accepts is no "+string(r.Accepts)+" of this one")
	case !plays(v, ev.Actor(), r.Who) && (r.Who != federation.System || !ev.Arrival.Orphaned):
		return refuse(v, ev, federation.WrongSender, "only the "+string(r.Who)+" may "+string(ev.Verb))
	}
	var term time.Time
	switch r.By {
	case ByDeadline:
		term = v.Deadline
	case ByBidDeadline:
		term = v.BidDeadline
	}
	if !term.IsZero() && ev.Time().After(term.Add(Tolerance)) {
		return refuse(v, ev, federation.DeadlinePassed, "it was "+term.UTC().Format(time.RFC3339))
	}
	return nil
}

// Revives refuses an offer that replaces an open handoff. The zero view is a handoff unknown here,
// which may be over at another home.
func Revives(ev federation.Event, replaced federation.View) error {
	switch {
	case ev.Replaces.IsZero():
		return nil
	case ev.Replaces == ev.Handoff:
		return federation.Refuse(ev, federation.InvalidTag, "an offer cannot replace itself")
	case replaced.Exists() && !replaced.Over:
		return federation.Refuse(ev, federation.ReplacesNotTerminal, "it is "+string(replaced.State))
	}
	return nil
}

func plays(v federation.View, did federation.DID, role federation.Role) bool {
	switch role {
	case federation.Offerer:
		return did == v.Offerer
	case federation.Offeree:
		return did == v.Offeree
	case federation.Assignee:
		return did == v.Assignee
	case federation.Anyone:
		return did != ""
	case federation.System:
		return did == v.Home.DID()
	}
	return false
}

func stateDetail(v federation.View, rule Rule) string {
	if rule.Assigns && v.Assignee != "" {
		return "it went to " + string(v.Assignee)
	}
	if v.Over {
		return "it is " + string(v.State)
	}
	from := make([]string, len(rule.From))
	for i, s := range rule.From {
		from[i] = string(s)
	}
	return "it is " + string(v.State) + ", and this step needs " + strings.Join(from, " or ")
}

func refuse(v federation.View, ev federation.Event, code federation.RefusalCode, detail string) error {
	r := federation.Refuse(ev, code, detail)
	r.View = v
	return r
}

func (k Kinds) moved(v federation.View, filed time.Time) federation.View {
	v.Moved = filed
	v.Over = slices.Contains(k.tables[v.Kind].Over, v.State)
	v.Clock, v.Since = "", time.Time{}
	w, waits := k.wait(v)
	switch {
	case !waits:
	case w.Clock == federation.UnansweredClock && !v.Deadline.IsZero():
		v.Clock, v.Since = federation.DeadlineClock, v.Deadline
	default:
		v.Clock, v.Since = w.Clock, filed
	}
	return v
}

// Then returns the step of the home when the clock of a handoff runs out, or "" for none.
func (k Kinds) Then(v federation.View) federation.Verb {
	w, _ := k.wait(v)
	return w.Then
}

func (k Kinds) wait(v federation.View) (wait, bool) {
	waits := k.tables[v.Kind].Waits
	i := slices.IndexFunc(waits, func(w wait) bool { return slices.Contains(w.In, v.State) })
	if i < 0 {
		return wait{}, false
	}
	return waits[i], true
}

// Replay returns the view after the last step of a log, or the zero View for an empty log. The
// error comes from the log, or names the step that cannot follow its predecessor.
func (k Kinds) Replay(home federation.HomeID, log iter.Seq2[federation.Entry, error]) (federation.View, error) {
	var v federation.View
	for entry, err := range log {
		if err != nil {
			return v, err
		}
		if v, err = k.Follow(v, entry, home); err != nil {
			return v, fmt.Errorf("replay step %s: %w", entry.Event.ID, err)
		}
	}
	return v, nil
}

// Follow returns the view after a filed step, as judged by the handoff's home, or the reason why
// the step cannot follow.
func (k Kinds) Follow(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error) {
	switch exists := before.Exists(); {
	case exists && step.Event.Verb == federation.Offer:
		return before, errors.New("the handoff was already open")
	case exists:
		return k.Check(before, step.Event, step.Filed)
	}
	return k.Open(step.Event, home, step.Filed)
}
