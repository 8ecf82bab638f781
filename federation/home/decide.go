package home

import (
	"cmp"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
)

// Rules are the rules of a home for steps. Their methods are pure.
type Rules struct {
	ID    federation.HomeID
	Kinds lifecycle.Kinds
	// TagPrefix is the prefix of tag names in refusals.
	TagPrefix string
	Policy    Policy
	Limits    Limits
	// CheckDID returns the reason why a DID can never be proved. It is pure. If it is nil, all DIDs
	// are accepted.
	CheckDID func(did federation.DID) error
}

// Authority is the kind of party that submits a step.
type Authority int

// The authorities.
const (
	Signer  Authority = iota // accepted if the rules allow it
	Receipt                  // the home of the handoff confirmed the pending step
	Own                      // this home ends one of its own handoffs
)

// Submission is a step to be judged, with a verified signature and an ID.
type Submission struct {
	Event federation.Event
	Since time.Time // first arrival, to compare with the time in a signed ID
	By    Authority
	// Resumed is true if the step waited for a key, and so was admitted on arrival.
	Resumed bool
	Ruling  *federation.Ruling // by the other home of the handoff, or nil
}

// Action is the action for a step.
type Action int

// The actions.
const (
	File    Action = iota // append the step to the log
	Repeat                // return Decision.Entry; write nothing
	Await                 // keep the step until the home of its handoff has ruled
	Confirm               // judge the pending step in Decision.Event by this receipt
	Dispute               // keep the proof that the ruling contradicts an earlier one
)

// Decision is the home's conclusion about a step.
type Decision struct {
	Action  Action
	Event   federation.Event // in its filed form; zero if it was not judged
	Before  federation.View
	After   federation.View
	Inboxes []federation.DID
	Receipt bool // the home confirms the step
	Ruling  *federation.Ruling
	Entry   federation.Entry
	Awaits  bool               // the step repeats a pending one
	Version federation.Version // position at which a disputed ruling diverges from an earlier one
}

// Decide judges one step. The error is a [*federation.RefusalError], or a [*federation.GapError]
// for a ruling with missing predecessors. The decision always has the current handoff.
func (r Rules) Decide(s Snapshot, sub Submission, now time.Time) (Decision, error) {
	switch {
	case sub.By == Own:
		after, err := r.Kinds.Check(s.View, sub.Event, now)
		return r.file(s.View, sub.Event, after), err
	case sub.Ruling != nil:
		return r.follow(s, sub, now)
	case s.Filed != nil:
		return Decision{Action: Repeat, Before: s.View, Entry: *s.Filed}, nil
	case s.Used != nil:
		return Decision{Before: s.View}, s.Used
	case sub.By == Receipt: // its party and the accepted step were set on arrival
		return r.decideStep(s, s.View, sub.Event, now)
	}
	if !slices.ContainsFunc(s.Pending, repeatedBy(sub.Event)) {
		if err := r.checkClock(sub.Event, sub.Since); err != nil {
			return Decision{Before: s.View}, err
		}
	}
	ev := r.resolve(s, sub.Event)
	if s.View.Remote && ev.Verb != federation.Offer {
		return r.visit(s, ev, now)
	}
	return r.decideStep(s, s.View, ev, now)
}

// In the act dialect, a state-changing step of a person needs the receipt of this home.
//
// spec: handofftag "Confirm"
func (r Rules) file(before federation.View, ev federation.Event, after federation.View) Decision {
	if after.Remote { // its home ends it if no step follows
		after.Clock, after.Since = "", time.Time{}
	}
	return Decision{
		Event: ev, Before: before, After: after, Inboxes: after.Others(ev.Actor()),
		Receipt: before.Exists() && before.Home == r.ID && before.Dialect == federation.ActTags && r.Moves(before, ev.Verb),
	}
}

// An ID accepted by another home may be old.
func (r Rules) checkClock(ev federation.Event, now time.Time) error {
	if !ev.Stamped || ev.Arrival.Home != "" || r.Limits.ClockSkew <= 0 {
		return nil
	}
	if skew := ev.ID.Time().Sub(now).Abs(); skew > r.Limits.ClockSkew {
		return federation.Refuse(ev, federation.EventIDClockSkew, "by "+skew.Round(time.Second).String())
	}
	return nil
}

// Adds the party that sent the step and, if its kind has accepting steps, the DID of the accepted
// step.
func (r Rules) resolve(s Snapshot, ev federation.Event) federation.Event {
	ev.Arrival.ActingFor, ev.Arrival.AcceptedFrom = s.Party, ""
	if s.Named == nil {
		return ev
	}
	if rule, _ := r.Kinds.Rule(s.View, ev.Verb); rule.Accepts != "" && s.Named.Event.Verb == rule.Accepts {
		ev.Arrival.AcceptedFrom = s.Named.Event.Actor()
	}
	return ev
}

// The first error found determines the code.
//
// spec: handofftag "Lifecycle"
func (r Rules) decideStep(s Snapshot, before federation.View, ev federation.Event, now time.Time) (Decision, error) {
	d := Decision{Event: ev, Before: s.View}
	if ev.Verb == federation.Offer {
		after, err := r.open(s, ev, now)
		if err != nil {
			return d, err
		}
		return r.file(before, ev, after), nil
	}
	if !before.Exists() {
		return d, federation.Refuse(ev, federation.UnknownHandoff, "")
	}
	at := cmp.Or(ev.Arrival.Place.Venue, ev.Venue)
	if !ev.Arrival.RemoteVenue && at != before.Venue && (before.Signed == "" || ev.Venue != before.Signed) {
		return d, federation.Refuse(ev, federation.WrongVenue, "")
	}
	after, err := r.Kinds.Check(before, ev, now)
	if err != nil {
		return d, err
	}
	if err := r.check(s, ev, before, after); err != nil {
		return d, err
	}
	return r.file(before, ev, after), nil
}

func (r Rules) open(s Snapshot, ev federation.Event, now time.Time) (federation.View, error) {
	if s.View.Exists() {
		return s.View, federation.Refuse(ev, federation.EventIDInUse, "")
	}
	if limit := r.Limits.MaxDeadline; limit > 0 && ev.Deadline.After(now.Add(limit)) {
		return s.View, federation.Refuse(ev, federation.InvalidTag, r.TagPrefix+"handoff-deadline, at most "+limit.String()+" from now")
	}
	if ev.To != "" && ev.Arrival.Home == "" && r.CheckDID != nil { // another home judges its own offers
		if err := r.CheckDID(ev.To); err != nil {
			return s.View, federation.Refuse(ev, federation.InvalidTarget, err.Error())
		}
	}
	after, err := r.Kinds.Open(ev, cmp.Or(ev.Arrival.Home, r.ID), now)
	if err != nil {
		return s.View, err
	}
	after.Remote = after.Home != r.ID
	if err := lifecycle.Revives(ev, s.Replaced); err != nil {
		return s.View, err
	}
	return after, r.check(s, ev, s.View, after)
}
