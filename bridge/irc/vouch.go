package irc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate/dialect"
)

// Bound returns the binding of an account on a link, the zero one where it has none. Its
// error is that of the record.
func Bound(ctx context.Context, p bridge.Ports, link, account string) (federation.BoundName, error) {
	if account == "" {
		return federation.BoundName{}, nil
	}
	b, err := p.Bindings.Bound(ctx, link, account)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.BoundName{}, nil
	case err != nil:
		return federation.BoundName{}, fmt.Errorf("look up account: %w", err)
	}
	return b, nil
}

// VouchFor returns an unsigned step as the gateway signs it for its sender, the DID in From. A step
// without an ID gets one. The line as received is its evidence. A context that does not fit is stored;
// only the evidence has members that do not fit even so. With an error it returns the step unchanged,
// so that the caller can try again.
func VouchFor(ctx context.Context, p bridge.Ports, ev federation.Event, line string) (federation.Event, error) {
	draft := ev
	switch {
	case ev.Stamped:
	case ev.Verb == federation.Offer:
		draft.ID = ev.Handoff
	default:
		id, err := federation.NewEventID(ev.Arrival.Received, rand.Reader)
		if err != nil {
			return ev, err
		}
		draft.ID = id
	}
	original := signing.Original{Network: ev.Arrival.Network, Received: ev.Arrival.Received, Document: line}
	evidence, err := p.EvidenceOf(ctx, original, ev.Venue)
	if err != nil {
		return ev, err
	}
	draft.For, draft.Evidence = ev.From, &evidence
	write := func(ev federation.Event) (map[string]string, []federation.Loss) {
		return dialect.Rewrite(ev, ev.Dialect)
	}
	vouched, _, err := signing.Vouch(ctx, p.Signer.Kept("person:"+string(ev.From)), draft, write, p.Evidence.Refer)
	if err != nil {
		return ev, fmt.Errorf("vouch for %s: %w", ev.From, err)
	}
	return vouched, nil
}
