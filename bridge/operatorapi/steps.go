package operatorapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/translate"
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
	o.deps.Gateway.FetchKey(r.Context(), ev)
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

// builder returns who writes down what operators ask for.
func (o *Operator) builder() stepbuilder.Builder {
	return stepbuilder.Builder{
		Network: network, Home: o.deps.Home, Gateway: o.deps.Gateway, Record: o.deps.Steps, Kept: o.deps.Kept,
		Refer: o.deps.Refer, BoundTo: o.deps.BoundTo, PublicURL: o.deps.PublicURL, Placers: o.placers,
	}
}

func (o *Operator) placers() []bridge.Placer {
	var placers []bridge.Placer
	for _, s := range o.deps.Links.Links() {
		if placer, ok := s.Link.(bridge.Placer); ok {
			placers = append(placers, placer)
		}
	}
	return placers
}

func (o *Operator) step(ctx context.Context, ask Ask, verb federation.Verb, view federation.View, now time.Time) (federation.Event, []translate.Loss, error) {
	if ask.Proof != nil {
		if ask.From+ask.To+ask.Title+ask.Context+ask.ContextHash+ask.Note != "" || len(ask.Caps) > 0 || !ask.Deadline.IsZero() {
			return federation.Event{}, nil, usage("what was signed is in the document of proof alone")
		}
		proof := stepbuilder.Proof{Document: ask.Proof.Document, Signature: ask.Proof.Signature}
		ev, err := o.builder().Attest(ctx, proof, verb, view, ask.Channel, now)
		return ev, nil, err
	}
	from, err := parseDID("from", ask.From)
	if err != nil {
		return federation.Event{}, nil, err
	}
	draft := stepbuilder.Draft{
		From: from, Verb: verb, Channel: ask.Channel, Title: ask.Title, Context: ask.Context, ContextHash: ask.ContextHash,
		Caps: ask.Caps, Deadline: time.Time(ask.Deadline), Note: ask.Note,
	}
	if verb == federation.Offer && ask.To != "" {
		if draft.To, err = parseDID("to", ask.To); err != nil {
			return federation.Event{}, nil, err
		}
	}
	return o.builder().Vouch(ctx, draft, view, now)
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
	place, tags, err := o.builder().Place(r.Context(), from, to, query.Get("channel"))
	if err != nil {
		return answer{}, err
	}
	if place.Venue == "" {
		place.Venue = o.builder().Pair(from, to)
	}
	return answer{body: Place{Venue: place.Venue, Dialect: tags}}, nil
}
