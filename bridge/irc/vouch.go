package irc

import (
	"context"
	"crypto/rand"
	"fmt"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/dialect"
)

// VouchFor returns a step that nobody signed as the gateway signs it for whoever sent
// it, whose DID is in From. One without an id of its own gets one. The line as received
// is its evidence. A context for which there is no room is stored; what the step cannot
// carry even so is in the line alone.
func VouchFor(ctx context.Context, p bridge.Ports, ev federation.Event, line string) (federation.Event, error) {
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
	if evidence, err = signing.SealEvidence(ctx, evidence, ev.Venue, p.Kept(signing.EvidenceSecret)); err != nil {
		return ev, err
	}
	key := p.Kept("person:" + string(ev.From))
	ev.For, ev.From = ev.From, key.DID
	ev.Provenance, ev.Evidence = federation.Vouched, &evidence
	fields, losses := dialect.Rewrite(ev, ev.Dialect)
	if translate.Loses(losses, "context") {
		if ev, err = p.Refer(ctx, ev); err != nil {
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
