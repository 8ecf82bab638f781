package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/federation"
	"baton/translate"
	"baton/translate/dialect"
)

// voucher returns the key with which the gateway signs for a DID, and whom that
// stands for where it is not the key's own: an agent that registered here, or
// somebody that an operator bound with vouch.
func (o *Operator) voucher(ctx context.Context, did federation.DID, view federation.View) (federation.SigningKey, federation.DID, error) {
	agent, err := o.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil:
		return o.deps.Kept("airc:" + agent.Handle), agent.StandsFor(view), nil
	case !isNotFound(err):
		return federation.SigningKey{}, "", fmt.Errorf("look up agent: %w", err)
	}
	names, err := o.deps.BoundTo(ctx, did)
	if err != nil {
		return federation.SigningKey{}, "", err
	}
	if !slices.ContainsFunc(names, func(b federation.BoundName) bool { return b.Vouch }) {
		return federation.SigningKey{}, "", &federation.RefusalError{
			Code: federation.NeedSignature, Detail: "this gateway does not vouch for " + string(did),
		}
	}
	return o.deps.Kept("person:" + string(did)), did, nil
}

// readable returns a step as everybody else will read its fields, or the refusal
// that they would meet it with.
func readable(ev federation.Event) (federation.Event, error) {
	signed := ev
	signed.Stamped, signed.Signature.Text = true, "unsigned"
	read, err := dialect.Decode(tagged(signed))
	if err != nil {
		return ev, err
	}
	ev.Title, ev.Caps, ev.Deadline = read.Title, read.Caps, read.Deadline
	return ev, nil
}

// tagged returns a step as the message that it would be on IRC.
func tagged(ev federation.Event) translate.Tagged {
	m := translate.Tagged{
		Command: "TAGMSG", Target: ev.Venue,
		Tags: translate.Wire(ev, map[string]string{"from": string(ev.From)}),
	}
	if federation.Private(ev.Venue) {
		m.Target = "anyone" // some user: which one is in the venue
	}
	return m
}

// errOtherStep is returned for a proof of something else than was asked for.
func errOtherStep() error { return usage("the document in proof is another step than the request") }

// attested returns a step that somebody signed, as it was signed. Whether the
// signature holds is for the home to say.
func (o *Operator) attested(ctx context.Context, ask Ask, verb federation.Verb, view federation.View, now time.Time) (federation.Event, error) {
	signed, err := translate.FromDocument(ask.Proof.Document)
	if err != nil {
		return federation.Event{}, usage("the document in proof is none of a step")
	}
	signed.Signature.Text = ask.Proof.Signature
	ev, err := dialect.Decode(tagged(signed))
	switch {
	case errors.Is(err, translate.ErrNotHandoff):
		return federation.Event{}, usage("the document in proof is none of a step")
	case err != nil:
		return federation.Event{}, err
	case ev.From != "" && ev.From != signed.From:
		return federation.Event{}, federation.Refuse(ev, federation.SignatureInvalid, "it is in the name of another DID")
	case ev.Verb != verb, verb != federation.Offer && ev.Handoff != view.ID:
		return federation.Event{}, errOtherStep()
	}
	ev.From, ev.Venue = signed.From, signed.Venue
	if verb == federation.Offer {
		if ev.Arrival.Place, _, err = o.place(ctx, ev.From, ev.To, ask.Channel); err != nil {
			return federation.Event{}, err
		}
	}
	ev.Arrival, err = o.arrival(ctx, ev, now)
	return ev, err
}
