package rest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/dialect"
)

// postOffer answers POST handoffs.
func (o *Operator) postOffer(r *http.Request) (answer, error) {
	return o.take(r, federation.Offer, federation.View{})
}

// postStep answers POST handoffs/{id}/{verb}.
func (o *Operator) postStep(r *http.Request) (answer, error) {
	verb := federation.Verb(r.PathValue("verb"))
	if verb == federation.Offer || verb == federation.Expire || !federation.ValidName(string(verb)) {
		return answer{}, &federation.RefusalError{Code: federation.UnknownVerb}
	}
	view, err := o.find(r.Context(), r.PathValue("id"))
	if none, ok := errors.AsType[*ProblemError](err); ok && none.Code == CodeNotFound {
		return answer{}, &federation.RefusalError{Code: federation.UnknownHandoff}
	}
	if err != nil {
		return answer{}, err
	}
	return o.take(r, verb, view)
}

// take submits one step, as it was signed or as the gateway vouches for it.
func (o *Operator) take(r *http.Request, verb federation.Verb, view federation.View) (answer, error) {
	var ask Ask
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	now := time.Now()
	ev, losses, err := o.step(r.Context(), ask, verb, view, now)
	if err != nil {
		return answer{}, err
	}
	judged, err := o.deps.Gateway.Submit(r.Context(), ev)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	waits := isRefusal && refused.Waits
	if err != nil && !waits {
		return answer{}, fmt.Errorf("submit %s: %w", verb, err)
	}
	entry := judged.Entry
	o.act(r, "handoff "+string(verb), entry.Event.Handoff.String()+" as "+string(entry.Event.Actor()), ask.Reason)
	filed := Filed{
		ID: entry.Event.Handoff, EventID: entry.Event.ID, Verb: entry.Event.Verb, State: entry.State,
		Duplicate: judged.Duplicate, Lost: []string{},
	}
	for _, loss := range losses {
		filed.Lost = append(filed.Lost, loss.Field)
	}
	if waits {
		filed.Waits = refused.Sentence()
		return answer{status: http.StatusAccepted, body: filed}, nil
	}
	return answer{status: http.StatusCreated, body: filed}, nil
}

func (o *Operator) step(ctx context.Context, ask Ask, verb federation.Verb, view federation.View, now time.Time) (federation.Event, []translate.Loss, error) {
	if ask.Proof != nil {
		if ask.From+ask.To+ask.Title+ask.Context+ask.ContextHash+ask.Note != "" || len(ask.Caps) > 0 || !ask.Deadline.IsZero() {
			return federation.Event{}, nil, usage("what was signed is in the document of proof alone")
		}
		ev, err := o.attested(ctx, ask, verb, view, now)
		return ev, nil, err
	}
	from, err := parseDID("from", ask.From)
	if err != nil {
		return federation.Event{}, nil, err
	}
	return o.vouched(ctx, ask, from, verb, view, now)
}

// vouched returns a step that the gateway signs for somebody whom it has bound.
func (o *Operator) vouched(ctx context.Context, ask Ask, from federation.DID, verb federation.Verb, view federation.View, now time.Time) (federation.Event, []translate.Loss, error) {
	key, standsFor, err := o.voucher(ctx, from, view)
	if err != nil {
		return federation.Event{}, nil, err
	}
	id, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return federation.Event{}, nil, err
	}
	ev := federation.Event{
		ID: id, Handoff: view.ID, Kind: view.Kind, Verb: verb, From: key.DID, For: standsFor,
		Venue: view.Venue, Dialect: view.Dialect, ReplyTo: view.ID.String(), Note: ask.Note, Context: ask.Context, ContextHash: ask.ContextHash,
		Provenance: federation.Vouched,
	}
	if verb == federation.Offer {
		if ev, err = o.opened(ctx, ev, ask); err != nil {
			return federation.Event{}, nil, err
		}
	}
	if ev.Arrival, err = o.arrival(ctx, ev, now); err != nil {
		return federation.Event{}, nil, err
	}
	fields, losses := dialect.Write(ev)
	if translate.Loses(losses, "context") {
		if ev, err = o.deps.Refer(ctx, ev); err != nil {
			return federation.Event{}, nil, fmt.Errorf("store context: %w", err)
		}
		fields, losses = dialect.Write(ev)
	}
	ev.Fields = fields
	for _, loss := range losses {
		if loss.Field == "context" { // an operator can write a shorter one
			return federation.Event{}, nil, federation.Refuse(ev, federation.InvalidContext, loss.Why)
		}
		ev.Note, _ = translate.CutNote(ev.Note)
	}
	if ev, err = readable(ev); err != nil {
		return federation.Event{}, nil, err
	}
	ev, err = signing.Seal(ctx, key, ev)
	return ev, losses, err
}

// opened makes a step the offer that opens a new handoff.
func (o *Operator) opened(ctx context.Context, ev federation.Event, ask Ask) (federation.Event, error) {
	var err error
	if ask.To != "" {
		if ev.To, err = parseDID("to", ask.To); err != nil {
			return ev, err
		}
	}
	ev.Handoff, ev.Kind, ev.ReplyTo = ev.ID, federation.Handoff, ""
	ev.Title, ev.Caps, ev.Deadline = ask.Title, ask.Caps, time.Time(ask.Deadline)
	place, tags, err := o.place(ctx, ev.Actor(), ev.To, ask.Channel)
	if err != nil {
		return ev, err
	}
	ev.Dialect, ev.Arrival.Place, ev.Venue = tags, place, place.Venue
	if ev.Venue == "" {
		ev.Venue = o.pair(ev.From, ev.To)
	}
	return ev, nil
}

// pair returns the venue of an offer that is written nowhere.
func (o *Operator) pair(from, to federation.DID) string {
	if to == "" {
		to = o.deps.Home.DID()
	}
	return federation.PrivateVenue(from, to)
}

// place returns where an offer is written on IRC, and in which dialect. Nowhere is
// no error: it waits in the inbox of its recipient. A channel that was asked for and
// is no link's is one.
func (o *Operator) place(ctx context.Context, from, to federation.DID, channel string) (federation.Place, federation.Dialect, error) {
	if channel == "" {
		place, tags, err := o.deps.Gateway.Place(ctx, from, to, "")
		if place.Venue == "" {
			tags = federation.HandoffTags
		}
		return place, tags, err
	}
	venue, err := parseChannel(channel)
	if err != nil {
		return federation.Place{}, "", err
	}
	for _, s := range o.deps.Links() {
		if placer, ok := s.Link.(bridge.Placer); ok && slices.Contains(placer.Channels(), venue) {
			return federation.Place{Venue: venue}, placer.Dialect(), nil
		}
	}
	return federation.Place{}, "", &federation.RefusalError{Code: federation.InvalidTarget, Detail: "no link lists " + venue}
}

// getPlace answers GET place.
func (o *Operator) getPlace(r *http.Request) (answer, error) {
	query := r.URL.Query()
	if err := known(query, "from", "to", "channel"); err != nil {
		return answer{}, err
	}
	from, err := parseDID("from", query.Get("from"))
	if err != nil {
		return answer{}, err
	}
	var to federation.DID
	if text := query.Get("to"); text != "" {
		if to, err = parseDID("to", text); err != nil {
			return answer{}, err
		}
	}
	place, tags, err := o.place(r.Context(), from, to, query.Get("channel"))
	if err != nil {
		return answer{}, err
	}
	if place.Venue == "" {
		place.Venue = o.pair(from, to)
	}
	return answer{body: Place{Venue: place.Venue, Dialect: tags}}, nil
}

// arrival returns what is noted of where a step came in. Whose it is gets a name
// here, so that others can write back, unless they have one on a network.
func (o *Operator) arrival(ctx context.Context, ev federation.Event, now time.Time) (federation.Arrival, error) {
	at := ev.Arrival
	at.Network, at.Link, at.Received = network, network, now
	b, err := o.deps.Record.Binding(ctx, ev.Actor())
	switch {
	case err == nil && b.Link != network:
		return at, nil
	case err != nil && !isNotFound(err):
		return at, fmt.Errorf("look up %s: %w", ev.Actor(), err)
	}
	at.Name = o.deps.Gateway.Name(ctx, ev.Actor())
	return at, nil
}
