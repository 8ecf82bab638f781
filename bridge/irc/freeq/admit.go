package freeq

import (
	"context"
	"errors"
	"slices"

	"baton/bridge/irc"
	"baton/federation"
	"baton/translate"
)

// Admits returns a [*federation.RefusalError] for a step that waits for the ruling of the
// server and that the server can only ignore: see [Link.legal]. Its other errors come from the
// record and from the session.
func (l *Link) Admits(ctx context.Context, h federation.Pending) error {
	_, err := l.pending(ctx, h)
	return err
}

// legal returns a step as the server takes it. A server takes each step from the DID that its log
// names for that part in the handoff, and drops a step of any other without an answer, but shows
// it. A step that another key than that was to sign is rendered with the key that the gateway
// keeps for its actor. If that is another one too, the error is a [*federation.RefusalError],
// and the step is returned as it would be written.
func (l *Link) legal(ctx context.Context, d federation.Delivery) (federation.Event, []translate.Loss, error) {
	written, losses, err := l.render(ctx, d)
	if err != nil {
		return written, nil, err
	}
	takes, known := l.takes(written, d.View)
	if known && !slices.Contains(takes, written.From) {
		if err := l.lookAgain(ctx, written.ID); err != nil {
			return written, nil, err
		}
		takes, known = l.takes(written, d.View)
	}
	if !known || slices.Contains(takes, written.From) {
		return written, losses, nil
	}
	d.Entry.Event.Arrival.Party = ""
	if kept := l.deps.Signer.Kept("person:" + string(d.Entry.Event.Actor())).DID; slices.Contains(takes, kept) {
		return irc.Vouch(ctx, l.deps.Ports, d)
	}
	if len(takes) == 0 {
		return written, losses, federation.Refuse(written, federation.IllegalStep, "the server lacks the step that assigned it")
	}
	return written, losses, federation.Refuse(written, federation.NeedSignature, "the server takes it only as signed by "+string(takes[0])+
		" itself, in act tags for "+d.View.Venue)
}

// takes returns the DIDs from which the server takes a step, and false for a step that anyone may
// take and for a handoff of which its log has shown nothing.
func (l *Link) takes(written federation.Event, v federation.View) (from []federation.DID, known bool) {
	of, seen := l.peers.of(v.ID)
	switch l.deps.Rulings.Role(v, written.Verb) {
	case federation.Offerer:
		return []federation.DID{of.offerer}, seen
	case federation.Assignee:
		return of.workers, seen
	case federation.Offeree:
		if !seen && v.Home == l.Home() {
			return []federation.DID{v.Addressee()}, v.Offeree != ""
		}
		return []federation.DID{of.offeree}, seen && of.offeree != ""
	case federation.Anyone, federation.System:
	}
	return nil, false
}

// lookAgain reads what the server filed since the last look. Its error is a not-now.
func (l *Link) lookAgain(ctx context.Context, id federation.EventID) error {
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	_, err := l.shows(ctx, s, id)
	return err
}

// answersAs returns the DID that signs the answers to an offer there, which the offer has to name:
// a server takes them from no other. It is the key that the gateway keeps for a participant that
// is no user of a freeq server, and the DID itself for an agent whose key the gateway has.
func (l *Link) answersAs(ctx context.Context, ev federation.Event, v federation.View) (federation.DID, error) {
	if of, known := l.peers.of(v.ID); known {
		return of.offeree, nil // the offer is there
	}
	native, err := l.native(ctx, ev.To)
	if err != nil || native {
		return ev.To, err
	}
	asSigned := ev.Dialect == federation.ActTags && ev.Venue == v.Venue
	if asSigned && l.deps.Signer.Kept("airc:"+l.deps.Gateway.Name(ctx, ev.To)).DID == ev.To {
		return ev.To, nil
	}
	return l.signer(ctx, ev.To), nil
}

// native reports whether a DID is that of a user of a freeq server: one that is logged in here, or
// signed its last step on such a server. Its error is that of the record.
func (l *Link) native(ctx context.Context, did federation.DID) (bool, error) {
	if l.Online(ctx, federation.Binding{DID: did}) {
		return true, nil
	}
	at, err := l.deps.Bindings.Seen(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	return at.Network == network, err
}
