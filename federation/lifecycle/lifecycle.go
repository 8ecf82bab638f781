// Package lifecycle decides which step is legal, from which state, and by whom.
// It is pure functions over a table: a new kind of handoff is new rows.
//
// spec: handofftag "Lifecycle"
package lifecycle

import (
	"slices"
	"strings"
	"time"

	"baton/federation"
)

// Tolerance is how far after a deadline an answer still counts: the clocks of
// signer and home may differ by that much.
const Tolerance = 120 * time.Second

// Rule is one row: this verb, from these states, by this role, to that state.
type Rule struct {
	Verb federation.Verb
	From []federation.State
	Who  federation.Role
	To   federation.State
	// Answers says that the step must be taken by the deadline.
	Answers bool
}

// Table holds the rules of one kind in one dialect.
type Table []Rule

// Handoff returns the rules of kind handoff after the offer, which opens. The
// dialects differ in two rows: the RFC lets the offerer cancel, and the home
// expire, only what nobody has accepted; act also what is assigned.
func Handoff(d federation.Dialect) Table {
	var (
		offered  = []federation.State{federation.Offered}
		open     = []federation.State{federation.Open}
		endable  = []federation.State{federation.Offered, federation.Open}
		assigned = []federation.State{federation.Assigned}
	)
	if d == federation.ActTags {
		endable = append(endable, federation.Assigned)
	}
	return Table{
		{Verb: federation.Accept, From: offered, Who: federation.Offeree, To: federation.Assigned, Answers: true},
		{Verb: federation.Decline, From: offered, Who: federation.Offeree, To: federation.Declined},
		{Verb: federation.Claim, From: open, Who: federation.Anyone, To: federation.Assigned, Answers: true},
		{Verb: federation.Progress, From: assigned, Who: federation.Assignee, To: federation.Assigned},
		{Verb: federation.Complete, From: assigned, Who: federation.Assignee, To: federation.Completed},
		{Verb: federation.Fail, From: assigned, Who: federation.Assignee, To: federation.Failed},
		{Verb: federation.Cancel, From: endable, Who: federation.Offerer, To: federation.Cancelled},
		{Verb: federation.Expire, From: endable, Who: federation.System, To: federation.Expired},
	}
}

// Open returns the view of a handoff after the offer that opens it.
func Open(ev federation.Event, home federation.HomeID) federation.View {
	v := federation.View{
		ID: ev.Handoff, Kind: ev.Kind, Dialect: ev.Dialect, Version: 1, State: federation.Offered,
		Home: home, Venue: ev.Venue, Offerer: ev.Actor(), Offeree: ev.To,
		Title: ev.Title, Caps: ev.Caps, Deadline: ev.Deadline, Priority: ev.Priority,
	}
	if ev.To == "" {
		v.State = federation.Open
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
	return v
}

// Check returns the view after a step, or a [*federation.RefusalError] and the
// view before it. It looks in this order, and the first thing wrong names the
// code: is the handoff over, is it in a state for this verb, is the actor the one
// who may, has the deadline passed.
func (t Table) Check(v federation.View, ev federation.Event) (federation.View, error) {
	i := slices.IndexFunc(t, func(r Rule) bool { return r.Verb == ev.Verb })
	if i < 0 {
		return v, refuse(v, ev, federation.UnknownVerb, "")
	}
	rule := t[i]
	switch {
	case Over(v.State):
		return v, refuse(v, ev, federation.TerminalHandoff, standing(v, rule))
	case !slices.Contains(rule.From, v.State):
		return v, refuse(v, ev, federation.IllegalStep, standing(v, rule))
	case !plays(v, ev.Actor(), rule.Who):
		return v, refuse(v, ev, federation.WrongSender, "only the "+string(rule.Who)+" may "+string(ev.Verb))
	case rule.Answers && late(v, ev):
		return v, refuse(v, ev, federation.DeadlinePassed, "it was "+v.Deadline.UTC().Format(time.RFC3339))
	}
	after := v
	after.State = rule.To
	after.Version++
	if v.State != federation.Assigned && rule.To == federation.Assigned {
		after.Assignee = ev.Actor()
	}
	return after, nil
}

// Over reports whether no step can follow a state.
func Over(s federation.State) bool {
	switch s {
	case federation.Completed, federation.Failed, federation.Declined, federation.Cancelled, federation.Expired:
		return true
	case federation.None, federation.Offered, federation.Open, federation.Assigned:
	}
	return false
}

func late(v federation.View, ev federation.Event) bool {
	return !v.Deadline.IsZero() && ev.Time().After(v.Deadline.Add(Tolerance))
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

// standing tells the sender how the handoff stands, and who won where an answer
// came too late.
func standing(v federation.View, rule Rule) string {
	if rule.Answers && v.Assignee != "" {
		return "it went to " + string(v.Assignee)
	}
	from := make([]string, len(rule.From))
	for i, s := range rule.From {
		from[i] = string(s)
	}
	if Over(v.State) {
		return "it is " + string(v.State)
	}
	return "it is " + string(v.State) + ", and this step needs " + strings.Join(from, " or ")
}

func refuse(v federation.View, ev federation.Event, code federation.RefusalCode, detail string) error {
	r := federation.Refuse(ev, code, detail)
	r.View = v
	return r
}
