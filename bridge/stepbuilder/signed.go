package stepbuilder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

// Proof is a signed step as sent by its author.
type Proof struct {
	Document  string
	Signature string // as on the wire
}

// Attest returns a step exactly as its author signed it. The step must have the given verb and,
// unless it is an offer, the given handoff. The home verifies the signature. An empty channel lets
// the gateway choose the channel of an offer. The errors are as for [Builder.Vouch].
func (s Builder) Attest(
	ctx context.Context, p Proof, verb federation.Verb, view federation.View, channel string, now time.Time,
) (federation.Event, error) {
	signed, err := translate.FromDocument(p.Document)
	if err != nil {
		return federation.Event{}, errNoStep()
	}
	signed.Signature.Text = p.Signature
	ev, err := dialect.Decode(tagged(signed))
	switch {
	case errors.Is(err, translate.ErrNotHandoff):
		return federation.Event{}, errNoStep()
	case err != nil:
		return federation.Event{}, err
	case ev.From != "" && ev.From != signed.From:
		return federation.Event{}, federation.Refuse(ev, federation.SignatureInvalid, "it is signed for another DID")
	case ev.Verb != verb, verb != federation.Offer && ev.Handoff != view.ID:
		return federation.Event{}, bridge.UsageProblem("the signed document differs from the request")
	}
	ev.From, ev.Venue = signed.From, signed.Venue
	if verb == federation.Offer {
		if ev.Arrival.Place, _, err = s.Place(ctx, ev.From, ev.To, channel); err != nil {
			return federation.Event{}, err
		}
	}
	ev.Arrival, err = s.arrival(ctx, ev, "", now)
	return ev, err
}

func errNoStep() error { return bridge.UsageProblem("the signed document is not a step") }

// voucher returns the key with which the gateway signs for a DID. It also returns the DID that the
// step acts for, if the key belongs to another DID: an agent registered here, a DID bound by an
// operator with vouch, or a caller that proved its DID.
func (s Builder) voucher(ctx context.Context, d Draft, view federation.View) (federation.SigningKey, federation.DID, error) {
	agent, err := s.Record.AgentOf(ctx, d.From)
	switch {
	case err == nil:
		return s.Signer.Kept("airc:" + agent.Handle), agent.StandsFor(view), nil
	case !errors.Is(err, federation.ErrNotFound):
		return federation.SigningKey{}, "", fmt.Errorf("look up agent: %w", err)
	case !d.Proved:
		if err := s.checkBound(ctx, d.From); err != nil {
			return federation.SigningKey{}, "", err
		}
	}
	key := s.Signer.Kept("person:" + string(d.From))
	if slices.Contains(view.Others(""), key.DID) {
		return key, "", nil // the handoff names the participant by this key
	}
	return key, d.From, nil
}

func (s Builder) checkBound(ctx context.Context, did federation.DID) error {
	names, err := s.Bindings.Of(ctx, did)
	if err == nil && !slices.ContainsFunc(names, func(b federation.BoundName) bool { return b.Vouch }) {
		err = &federation.RefusalError{Code: federation.NeedSignature, Detail: "this gateway does not vouch for " + string(did)}
	}
	return err
}

// CheckVouched refuses a DID for which the gateway signs no steps unless the caller proves the DID.
// The gateway signs for agents registered here and for DIDs bound by an operator with vouch.
func (s Builder) CheckVouched(ctx context.Context, did federation.DID) error {
	_, err := s.Record.AgentOf(ctx, did)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, federation.ErrNotFound):
		return fmt.Errorf("look up agent: %w", err)
	}
	return s.checkBound(ctx, did)
}

func tagged(ev federation.Event) translate.Tagged {
	m := translate.Tagged{
		Command: "TAGMSG", Target: ev.Venue,
		Tags: translate.Wire(ev, map[string]string{"from": string(ev.From)}),
	}
	if federation.Private(ev.Venue) {
		m.Target = "anyone" // any user of the venue
	}
	return m
}
