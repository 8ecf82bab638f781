package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

func (o *Operator) explainEvent(ctx context.Context, in ByID) (Explanation, error) {
	entry, err := o.findEvent(ctx, in.ID)
	if none, ok := errors.AsType[*ProblemError](err); ok && none.Code == CodeNotFound {
		return o.explainDeferred(ctx, in.ID, err)
	}
	if err != nil {
		return Explanation{}, err
	}
	view, err := o.deps.Gateway.View(ctx, entry.Event.Handoff)
	if err != nil {
		return Explanation{}, fmt.Errorf("read handoff %s: %w", entry.Event.Handoff, err)
	}
	history, err := o.deps.Record.History(ctx, entry.Event.From)
	if err != nil {
		return Explanation{}, err
	}
	held, err := o.holds(ctx)
	if err != nil {
		return Explanation{}, err
	}
	became, err := o.deliveries(ctx, view, held)
	if err != nil {
		return Explanation{}, err
	}
	ev := entry.Event
	step := shapeStep(entry, "")
	e := Explanation{
		EventID: ev.ID, HandoffID: ev.Handoff, Version: entry.Version, Verb: ev.Verb, From: ev.From, For: step.For,
		Provenance: ev.Provenance, Verdict: step.Verdict, Document: ev.Signature.Document, Signature: ev.Signature.Text,
		Scheme: ev.Dialect, Evidence: step.Evidence, State: entry.State, Next: []Next{},
		Key: ExplainedKey{
			KeyID: federation.KeyID(ev.Signature.Key), Public: base64.RawURLEncoding.EncodeToString(ev.Signature.Key),
			Source: o.keySource(ev, history),
		},
	}
	e.Why = fmt.Sprintf("the signature is valid under key %s of %s, by %s", e.Key.KeyID, ev.From, e.Key.Source)
	if ev.Provenance == federation.Vouched {
		e.Why = fmt.Sprintf("this gateway signed it with its key for %s, and vouches for the step", ev.Actor())
		if ev.Evidence != nil {
			e.Why += "; the received message is the evidence"
		}
	}
	if ev.Erased != nil {
		e.Why = "an operator erased its content at " + Moment(ev.Erased.At).String() + "; the chain of its handoff has the digest of what was signed"
	}
	seen := bridge.Seen{Account: ev.Actor(), At: ev.Arrival.Received}
	if ev.Provenance == federation.Vouched { // a signed step names its author, regardless of the forwarding home
		seen.Origin = string(ev.Arrival.Home)
	}
	e.Identity, _ = bridge.ClaimOfMessage(seen)
	e.Hops = []Hop{
		{What: "received", Via: ev.Arrival.Link, Who: cmp.Or(ev.Arrival.Name, string(ev.Actor())), Time: Moment(ev.Arrival.Received)},
		{What: "filed", Via: string(o.deps.Home), Who: string(entry.State), Time: Moment(entry.Filed)},
	}
	e.Standing = view.State
	o.follow(ctx, &e, entry.Event, view, became[entry.Event.ID], held)
	routes, err := o.deps.Server.MailboxRoutes(ctx, view)
	if err != nil {
		return Explanation{}, err
	}
	for _, at := range routes {
		e.Routes = append(e.Routes, Route{DID: at.DID, Home: at.Home, Source: at.Source, Since: Moment(at.Since)})
	}
	return e, nil
}

// explainDID may block on the host of the DID.
func (o *Operator) explainDID(ctx context.Context, in ByDID) (ExplainedDID, error) {
	did, err := federation.ParseDID(in.DID)
	if err != nil {
		return ExplainedDID{}, usage("did: " + err.Error())
	}
	document, err := o.deps.Document(ctx, did)
	e := ExplainedDID{
		DID: did, Source: document.Source, Fetched: Moment(document.Fetched), Mailbox: document.Mailbox,
		Keys: []DocumentKey{}, Skipped: []SkippedKey{},
	}
	if err != nil {
		e.Error = err.Error()
	}
	if refused := o.deps.Refused(did); refused.Why != nil {
		e.RefusedAt, e.RefusedWhy = Moment(refused.At), bridge.OneLine(refused.Why)
	}
	listed := slices.Clone(document.Others)
	for _, key := range document.Keys {
		listed = append(listed, federation.PublicKey{Kind: federation.Ed25519, Bytes: key})
	}
	for _, key := range listed {
		e.Keys = append(e.Keys, DocumentKey{KeyID: federation.KeyID(key.Bytes), Kind: key.Kind, Public: base64.RawURLEncoding.EncodeToString(key.Bytes)})
	}
	for _, key := range document.Skipped {
		e.Skipped = append(e.Skipped, SkippedKey(key))
	}
	return e, nil
}

func (o *Operator) findEvent(ctx context.Context, text string) (federation.Entry, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		if id, err = o.findSuffix(ctx, strings.ToUpper(text)); err != nil {
			return federation.Entry{}, err
		}
	}
	handoff, err := o.deps.Record.Reference(ctx, id.String())
	if err == nil {
		var entry federation.Entry
		if entry, err = o.deps.Record.Step(ctx, handoff, id); isNotFound(err) {
			entry, err = o.receipt(ctx, handoff, id)
		}
		if err == nil {
			return entry, nil
		}
	}
	if isNotFound(err) {
		return federation.Entry{}, errNone("event " + text + " on file; refused events are only in the log")
	}
	return federation.Entry{}, fmt.Errorf("look up event: %w", err)
}

// receipt returns a receipt by its home, which is in no log.
func (o *Operator) receipt(ctx context.Context, handoff federation.HandoffID, id federation.EventID) (federation.Entry, error) {
	receipts, err := o.deps.Record.Receipts(ctx, handoff)
	if err != nil {
		return federation.Entry{}, err
	}
	i := slices.IndexFunc(receipts, func(ev federation.Event) bool { return ev.ID == id })
	if i < 0 {
		return federation.Entry{}, federation.ErrNotFound
	}
	step, err := o.deps.Record.Step(ctx, handoff, receipts[i].Subject)
	if err != nil {
		return federation.Entry{}, err
	}
	return federation.Entry{Event: receipts[i], State: step.State, Filed: step.Filed}, nil
}

func (o *Operator) keySource(ev federation.Event, history federation.KeyHistory) string {
	switch {
	case ev.From.Method() == "key":
		return "did:key" // it is in the DID
	case ev.From == o.deps.Home.DID():
		return "home"
	}
	return cmp.Or(history.Source(federation.KeyID(ev.Signature.Key)), "record")
}

func (o *Operator) follow(ctx context.Context, e *Explanation, ev federation.Event, view federation.View, became []federation.Delivered, held map[string]Hold) {
	for _, d := range became {
		who := o.addressee(ctx, d, view, ev)
		if d.State == federation.DeliveryWaiting {
			next := o.waiting(d, who)
			next.Via = cmp.Or(d.Queue, d.Link)
			next.Hold = held[next.Via]
			e.Next = append(e.Next, next)
			continue
		}
		e.Hops = append(e.Hops, Hop{What: string(d.State), Via: d.Link, Who: who, Why: d.Reason, Time: Moment(d.Ended)})
	}
	slices.SortStableFunc(e.Hops[2:], func(a, b Hop) int { return time.Time(a.Time).Compare(time.Time(b.Time)) })
	if verb, at := o.deps.Gateway.Ends(view); verb != "" {
		e.Next = append(e.Next, Next{What: string(verb), Clock: view.Clock, Time: Moment(at)})
	}
}

func (o *Operator) waiting(d federation.Delivered, who string) Next {
	next := Next{What: o.waitsFor(d), Via: d.Link, Who: who, Attempts: d.Attempt, Tried: d.Reason, Time: Moment(d.Next)}
	for _, s := range o.deps.Links.Statuses() {
		if s.Link.Name() == d.Link {
			next.LinkState, next.LastError = string(s.Status.State), s.Status.LastError
			if s.Status.State != bridge.LinkUp {
				next.Time = Moment(s.Status.NextDial)
			}
		}
	}
	return next
}

func (o *Operator) waitsFor(d federation.Delivered) string {
	linked := slices.ContainsFunc(o.deps.Links.Statuses(), func(s bridge.LinkStatus) bool { return s.Link.Name() == d.Link })
	if d.Link == federation.UnroutedLink || !linked && d.Participant == "" {
		return Routing
	}
	return "deliver"
}

// explainDeferred explains a deferred event, which cannot be judged now. If there is no such
// event, it returns the given error.
func (o *Operator) explainDeferred(ctx context.Context, text string, none error) (Explanation, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		return Explanation{}, none
	}
	d, err := o.deps.Record.DeferredStep(ctx, id)
	if errors.Is(err, federation.ErrNotFound) {
		return Explanation{}, none
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("look up deferred event: %w", err)
	}
	view, err := o.deps.Gateway.View(ctx, d.Event.Handoff)
	if err != nil {
		return Explanation{}, fmt.Errorf("read handoff %s: %w", d.Event.Handoff, err)
	}
	ev := d.Event
	e := Explanation{
		EventID: ev.ID, HandoffID: ev.Handoff, Verb: ev.Verb, From: ev.From, For: ev.For, Identity: bridge.LookingUp,
		Provenance: ev.Provenance, Verdict: federation.Unverifiable.String(), Why: d.Reason,
		Document: ev.Signature.Document, Signature: ev.Signature.Text, Scheme: ev.Dialect,
		Key: ExplainedKey{KeyID: ev.Signature.KeyID}, Standing: view.State,
		Hops: []Hop{{What: "received", Via: d.Origin, Who: cmp.Or(ev.Arrival.Name, string(ev.Actor())), Time: Moment(ev.Arrival.Received)}},
		Next: []Next{{What: Judgement, Attempts: d.Tried, LastError: d.Reason, Time: Moment(d.Next)}},
	}
	return e, nil
}

func (o *Operator) getPassport(ctx context.Context, in ByID) (route.File, error) {
	view, err := o.find(ctx, in.ID)
	if err != nil {
		return route.File{}, err
	}
	document, err := o.deps.Server.Passport(ctx, view, time.Now())
	return route.File{Content: bytes.NewReader(document.Content)}, err
}
