package participant

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// StateOpen is the state of a [Query] for all unfinished handoffs.
const StateOpen = "open"

// Each read takes a bounded number of handoffs, perhaps without a match.
const maxLooks = 32

// Query selects handoffs. Without a DID, a channel or open offers, it selects the caller's.
type Query struct {
	DID        string
	State      string // state of a handoff, [StateOpen], or "" for any
	Kind       string
	Capability string
	Channel    string
	// Claimable selects open offers that the caller may claim now. If it points to false, the state
	// [StateOpen] selects all open offers.
	Claimable *bool
	Words     string // in any order, ignoring case
	Since     time.Time
}

// filter returns false if nothing can match. An operator has no own DIDs.
func (q Query) filter(own []federation.DID, states []federation.State) (federation.Filter, bool, error) {
	unfinished := false
	f := federation.Filter{
		State: federation.State(q.State), Kind: federation.Kind(q.Kind), Capability: q.Capability, Title: q.Words, Since: q.Since,
	}
	if q.State != "" && !slices.Contains(states, f.State) {
		return f, false, bridge.UsageProblem(fmt.Sprintf("state: want one of %s; not %q", joined(states), q.State))
	}
	if q.DID != "" {
		if _, err := federation.ParseDID(q.DID); err != nil {
			return f, false, bridge.UsageProblem("did: " + err.Error())
		}
		f.DIDs = []federation.DID{federation.DID(q.DID)}
	}
	if q.State == StateOpen {
		f.State, unfinished = "", true
	}
	if q.Channel != "" {
		venue, ok := translate.Channel(q.Channel)
		if !ok {
			return f, false, bridge.UsageProblem(fmt.Sprintf("channel: %q is not a channel", q.Channel))
		}
		f.Venue = venue
	}
	claimable := q.Claimable != nil && *q.Claimable
	if claimable && q.State != "" && q.State != StateOpen {
		return f, false, bridge.UsageProblem("claimable: only offers in the state open can be claimed")
	}
	open := claimable || q.Claimable != nil && q.State == StateOpen
	if open {
		f.State, unfinished = federation.Open, false
	}
	if q.DID == "" && q.Channel == "" && !open {
		f.DIDs = own
	}
	return f, unfinished, nil
}

func joined[Word ~string](words []Word) string {
	var text []string
	for _, w := range words {
		text = append(text, string(w))
	}
	return strings.Join(text, ", ")
}

// Listed is a handoff as shown to one caller.
type Listed struct {
	View federation.View `json:"view"`
	// Missing has the required capabilities of an open offer that the caller has not declared. It
	// is nil for any other handoff.
	Missing []string `json:"missing_caps"`
}

// List returns up to limit matching visible handoffs after a cursor, most recently changed first. The next
// cursor is "" after the last page.
func (a *Service) List(ctx context.Context, who Caller, q Query, after federation.Cursor, limit int) ([]Listed, federation.Cursor, error) {
	var own []federation.DID
	if who.DID != "" {
		var err error
		if own, err = a.deps.Gateway.DIDs(ctx, who.DID); err != nil {
			return nil, "", err
		}
	}
	f, unfinished, err := q.filter(own, a.kinds().States())
	if err != nil {
		return nil, "", err
	}
	declared, err := a.declared(ctx, who)
	if err != nil {
		return nil, "", err
	}
	claimable := q.Claimable != nil && *q.Claimable
	admits := func(v federation.View) bool {
		return (!unfinished || !v.Over) && (!claimable || a.kinds().Leads(v, federation.Claim) && len(shownTo(who, v, declared).Missing) == 0)
	}
	views, next, err := a.page(ctx, who, f, admits, after, limit)
	if err != nil {
		return nil, "", err
	}
	items := make([]Listed, len(views))
	for i, v := range views {
		items[i] = shownTo(who, v, declared)
	}
	return items, next, nil
}

// Listed returns a visible handoff as shown to a caller.
func (a *Service) Listed(ctx context.Context, who Caller, v federation.View) (Listed, error) {
	if !isOpen(v) || len(v.Caps) == 0 {
		return shownTo(who, v, nil), nil
	}
	declared, err := a.declared(ctx, who)
	return shownTo(who, v, declared), err
}

func (a *Service) declared(ctx context.Context, who Caller) ([]string, error) {
	if who.DID == "" {
		return nil, nil
	}
	declared, err := a.deps.Record.Declared(ctx, who.DID)
	if err != nil {
		return nil, fmt.Errorf("look up capabilities of %s: %w", who.DID, err)
	}
	return declared, nil
}

// shownTo omits missing capabilities for an operator.
func shownTo(who Caller, v federation.View, declared []string) Listed {
	switch {
	case !isOpen(v):
		return Listed{View: v}
	case who.DID == "":
		return Listed{v, []string{}}
	}
	return Listed{v, v.MissingCaps(declared)}
}

func isOpen(v federation.View) bool { return v.State == federation.Open && v.Offeree == "" }

// Page is List for a filter of the record. If unfinished is true, it omits finished handoffs.
func (a *Service) Page(
	ctx context.Context, who Caller, f federation.Filter, unfinished bool, after federation.Cursor, limit int,
) ([]federation.View, federation.Cursor, error) {
	return a.page(ctx, who, f, func(v federation.View) bool { return !unfinished || !v.Over }, after, limit)
}

func (a *Service) page(
	ctx context.Context, who Caller, f federation.Filter, admits func(federation.View) bool, after federation.Cursor, limit int,
) ([]federation.View, federation.Cursor, error) {
	var views []federation.View
	for range maxLooks {
		more, next, err := a.deps.Record.Handoffs(ctx, f, after, limit-len(views))
		if err != nil {
			return nil, "", fmt.Errorf("list handoffs: %w", err)
		}
		for _, v := range more {
			shown, err := a.visible(ctx, who, v)
			if err != nil {
				return nil, "", err
			}
			if shown && admits(v) {
				views = append(views, v)
			}
		}
		if after = next; next == "" || len(views) >= limit {
			break
		}
	}
	return views, after, nil
}

// Log yields the steps of a handoff after a version, in order. It does not check visibility: see
// [Service.Find].
func (a *Service) Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error] {
	return a.deps.Record.Log(ctx, id, after)
}

// Passport returns the signed passport of a visible handoff.
func (a *Service) Passport(ctx context.Context, who Caller, id string) (bridge.Document, error) {
	view, err := a.Find(ctx, who, id)
	if err != nil {
		return bridge.Document{}, err
	}
	return a.deps.Passports.Passport(ctx, view, time.Now())
}

// Explanation is the verdict on an event with its reason, and its outcome.
type Explanation struct {
	EventID    string              `json:"event_id"`
	Verdict    string              `json:"verdict"`
	Why        string              `json:"why"`
	Deliveries []ExplainedDelivery `json:"deliveries"` // never nil
	Next       string              `json:"next"`       // "" for none
}

// ExplainedDelivery is one delivery of an event.
type ExplainedDelivery struct {
	To    string    `json:"to"`  // a DID, or "channel"
	Via   string    `json:"via"` // the link, or "inbox"
	State string    `json:"state"`
	Time  time.Time `json:"time,omitzero"` // end, or time of the next attempt
}

const viaInbox = "inbox"

const toChannel = "channel"

// Explain returns the outcome of an event, unless its handoff is hidden. It blocks on the record.
func (a *Service) Explain(ctx context.Context, who Caller, event string) (Explanation, error) {
	id, err := federation.ParseEventID(event)
	if err != nil {
		return Explanation{}, bridge.UsageProblem("event_id: " + err.Error())
	}
	handoff, err := a.deps.Record.Reference(ctx, id.String())
	if errors.Is(err, federation.ErrNotFound) {
		return a.explainDeferred(ctx, who, id)
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("look up event: %w", err)
	}
	view, err := a.Find(ctx, who, handoff.String())
	if err != nil {
		return Explanation{}, err
	}
	entry, err := a.deps.Record.Step(ctx, handoff, id)
	if errors.Is(err, federation.ErrNotFound) {
		return Explanation{}, errNone()
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("read event: %w", err)
	}
	e := Explanation{
		EventID: id.String(), Verdict: federation.Valid.String(), Why: why(entry.Event), Next: next(view),
	}
	e.Deliveries, err = a.deliveries(ctx, view, entry.Event)
	return e, err
}

// explainDeferred shows a deferred step only to its author and the parties of its handoff.
func (a *Service) explainDeferred(ctx context.Context, who Caller, id federation.EventID) (Explanation, error) {
	d, err := a.deps.Record.DeferredStep(ctx, id)
	if errors.Is(err, federation.ErrNotFound) {
		return Explanation{}, errNone()
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("look up deferred event: %w", err)
	}
	if !who.Operator {
		own, err := a.deps.Gateway.Same(ctx, who.DID, d.Event.Actor())
		if err == nil && !own {
			_, err = a.Find(ctx, who, d.Event.Handoff.String())
		}
		if err != nil {
			return Explanation{}, err
		}
	}
	return Explanation{
		EventID: id.String(), Verdict: federation.Unverifiable.String(), Deliveries: []ExplainedDelivery{},
		Why:  "its signature cannot be verified yet: the key is not available",
		Next: "it is judged again at " + stamp(d.Next),
	}, nil
}

func why(ev federation.Event) string {
	if ev.Provenance == federation.Signed {
		return fmt.Sprintf("the signature is valid under key %s of %s", federation.KeyID(ev.Signature.Key), ev.From)
	}
	text := fmt.Sprintf("a gateway signed it with its key for %s, and vouches for the step", ev.Actor())
	if ev.Evidence != nil {
		text += "; the received message is the evidence"
	}
	return text
}

func next(view federation.View) string {
	if view.Over || view.Clock != federation.DeadlineClock || view.Deadline.IsZero() {
		return ""
	}
	return "the offer expires at " + stamp(view.Deadline) + " unless it is answered"
}

func stamp(t time.Time) string { return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) }

func (a *Service) deliveries(ctx context.Context, view federation.View, ev federation.Event) ([]ExplainedDelivery, error) {
	links := []string{federation.UnroutedLink}
	for _, s := range a.deps.Venues.Statuses() {
		links = append(links, s.Link.Name())
	}
	slices.Sort(links)
	all, err := a.deps.Record.Deliveries(ctx, view.ID, slices.Compact(links))
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	found := []ExplainedDelivery{}
	for _, d := range all {
		if d.Event != ev.ID {
			continue
		}
		e := ExplainedDelivery{Via: d.Link, State: string(d.State), Time: d.Ended}
		if d.Link == federation.InboxLink {
			e.Via = viaInbox
		}
		if d.State == federation.DeliveryWaiting {
			e.Time = d.Next
		}
		for _, to := range a.addressees(ctx, d, view, ev) {
			e.To = to
			found = append(found, e)
		}
	}
	return found, nil
}

func (a *Service) addressees(ctx context.Context, d federation.Delivered, view federation.View, ev federation.Event) []string {
	switch {
	case d.Link == federation.WebhookLink || d.Link == federation.InboxLink:
		return []string{d.Participant}
	case d.Participant != "":
		if did, err := a.deps.Bindings.Participant(ctx, d.Participant); err == nil {
			return []string{string(did)}
		}
	case !federation.Private(view.Venue):
		return []string{toChannel}
	}
	var to []string
	for _, did := range view.Others(ev.Actor()) {
		to = append(to, string(did))
	}
	return to
}
