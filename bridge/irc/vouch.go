package irc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
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

// VouchFor returns an unsigned step as the gateway signs it for its sender, the DID in
// From. A step without an id gets one. The line as received
// is its evidence. A context for which there is no room is stored; what the step cannot
// carry even so is in the line alone. With an error it returns the step as it was, so that the
// caller can try again.
func VouchFor(ctx context.Context, p bridge.Ports, ev federation.Event, line string) (federation.Event, error) {
	vouched, err := vouch(ctx, p, ev, line)
	if err != nil {
		return ev, fmt.Errorf("vouch for %s: %w", ev.From, err)
	}
	return vouched, nil
}

func vouch(ctx context.Context, p bridge.Ports, ev federation.Event, line string) (federation.Event, error) {
	switch {
	case ev.Stamped:
	case ev.Verb == federation.Offer:
		ev.ID = ev.Handoff
	default:
		id, err := federation.NewEventID(ev.Arrival.Received, rand.Reader)
		if err != nil {
			return ev, err
		}
		ev.ID = id
	}
	evidence, err := signing.Original{
		Network: ev.Arrival.Network, Received: ev.Arrival.Received, Document: line,
	}.Evidence(p.PublicURL)
	if err != nil {
		return ev, err
	}
	if evidence, err = signing.SealEvidence(ctx, evidence, ev.Venue, p.Signer.Kept(signing.EvidenceSecret)); err != nil {
		return ev, err
	}
	key := p.Signer.Kept("person:" + string(ev.From))
	ev.For, ev.From = ev.From, key.DID
	ev.Provenance, ev.Evidence = federation.Vouched, &evidence
	fields, losses := dialect.Rewrite(ev, ev.Dialect)
	if federation.Loses(losses, "context") {
		if ev, err = p.Evidence.Refer(ctx, ev); err != nil {
			return ev, fmt.Errorf("store context of %s: %w", ev.ID, err)
		}
		fields, losses = dialect.Rewrite(ev, ev.Dialect)
	}
	for _, loss := range losses { // what is filed is what is signed
		switch loss.Field {
		case "note":
			ev.Note, _ = translate.CutNote(ev.Note)
		case "context":
			ev.Context, ev.ContextHash = "", ""
		}
	}
	ev.Fields = fields
	return signing.Seal(ctx, key, ev)
}
