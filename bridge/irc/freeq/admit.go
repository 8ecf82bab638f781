package freeq

import (
	"context"
	"errors"
	"slices"

	"baton/bridge/irc"
	"baton/federation"
)

// Admits returns a [*federation.RefusalError] for a pending step that the server would ignore: see
// [Link.legal]. Its other errors come from the record and from the session.
func (l *Link) Admits(ctx context.Context, h federation.Pending) error {
	_, err := l.pending(ctx, h)
	if _, refused := errors.AsType[*federation.RefusalError](err); !refused {
		return err
	}
	held, unread := l.deps.Record.Awaiting(ctx, l.Home(), maxRulings)
	switch {
	case unread != nil:
		return unread
	case slices.ContainsFunc(held, func(earlier federation.Pending) bool {
		return laneOf(earlier) == laneOf(h) && earlier.Event.ID != h.Event.ID
	}):
		return nil // the ruling on the earlier step decides: the step may follow an accept in flight
	}
	return err
}

// legal returns a step in a form that the server accepts. A server accepts a step in a handoff only
// from the DID that its log names for the role. It silently drops any other step, but still shows
// it to users. If the step has another signer, legal renders it with the key that the gateway keeps
// for its actor. If the server does not accept that key either, legal returns the step with a
// [*federation.RefusalError].
func (l *Link) legal(ctx context.Context, d federation.Delivery) (federation.Event, []federation.Loss, error) {
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
	kept := l.deps.Signer.Kept("person:" + string(d.Entry.Event.Actor())).DID
	if slices.Contains(takes, kept) {
		return irc.Vouch(ctx, l.deps.Ports, d)
	}
	if len(takes) == 0 {
		return written, losses, federation.Refuse(written, federation.IllegalStep, "the server lacks the step that assigned it")
	}
	return written, losses, federation.Refuse(written, federation.NeedSignature, "the server takes it only as signed by "+string(takes[0])+
		" itself, in act tags for "+d.View.Venue+": sign the step, or ask for an offer to "+string(kept))
}

// takes returns the DIDs from which the server accepts a step. It returns false if any DID may take
// the step, or if the log has not shown the handoff.
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

// lookAgain reads the new rows of the server's log. Its error is an [*federation.UnavailableError].
func (l *Link) lookAgain(ctx context.Context, id federation.EventID) error {
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	_, err := l.shows(ctx, s, id)
	return err
}

// answersAs returns the DID that signs the answers to an offer, which the offer has to name because
// a server accepts answers from no other DID. For a participant outside freeq it is the key that
// the gateway keeps for the participant. For an agent whose own key the gateway has, it is the DID
// itself.
func (l *Link) answersAs(ctx context.Context, ev federation.Event, v federation.View) (federation.DID, error) {
	if of, known := l.peers.of(v.ID); known {
		return of.offeree, nil // the server already has the offer
	}
	native, err := l.native(ctx, ev.To)
	if err != nil || native {
		return ev.To, err
	}
	asSigned := ev.Dialect == federation.ActTags && ev.Venue == v.Venue
	if asSigned && l.deps.Signer.Kept("airc:"+l.deps.Gateway.Name(ctx, ev.To)).DID == ev.To {
		return ev.To, nil
	}
	return l.signer(ctx, ev.To)
}

// native reports whether a DID belongs to a user of a freeq server: it is logged in here, or signed
// its last step on such a server. It returns the errors of the record.
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
