package airc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/aircmsg"
	"baton/translate/dialect"
)

// submit asks the home to file the step of a message: as an agent of this registry signed it
// where the payload has a proof, else as the gateway vouches for it, and then with what
// the step takes for granted. It answers for the last of them.
func (l *Link) submit(ctx context.Context, d *delivery, s step) (*filed, error) {
	// The registry of a remote sender vouches for it: no key of that sender is known here.
	if _, isRemote := splitAddress(d.from); s.Proof != nil && !isRemote {
		ev, err := l.attest(ctx, d, s)
		if err != nil {
			return nil, err
		}
		return l.file(ctx, d, ev, nil)
	}
	if verb := s.implied(); verb != "" {
		bare := step{Step: aircmsg.Step{Verb: verb}, view: s.view, replyTo: s.view.ID}
		ev, _, err := l.vouch(ctx, d, bare)
		if err != nil {
			return nil, err
		}
		if _, err := l.file(ctx, d, ev, nil); err != nil && !taken(s.view, err) {
			return nil, err
		}
	}
	ev, losses, err := l.vouch(ctx, d, s)
	if err != nil {
		return nil, err
	}
	return l.file(ctx, d, ev, s.lost(losses))
}

// taken reports whether an implied step was refused because the agent has taken it
// already, in a handoff of another home which has not ruled on it yet.
func taken(v federation.View, err error) bool {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	return ok && v.Remote && refused.Code == federation.IllegalStep
}

// file submits one step.
func (l *Link) file(ctx context.Context, d *delivery, ev federation.Event, lost []string) (*filed, error) {
	d.charged = d.charged || ev.From == d.sender.DID
	l.deps.Gateway.FetchKey(ctx, ev)
	judged, err := l.deps.Gateway.Submit(ctx, ev)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	waits := isRefusal && refused.Waits
	if err != nil && !waits {
		return nil, judgedError{fmt.Errorf("submit %s of %s: %w", ev.Verb, ev.Handoff, err)}
	}
	return &filed{
		ID: judged.Entry.Event.Handoff, Event: judged.Entry.Event.Verb, EventID: judged.Entry.Event.ID,
		State: cmp.Or(judged.Entry.State, judged.View.State), Lost: lost, held: judged.Awaits || waits,
	}, nil
}

// vouch returns a step as the gateway signs it for the agent, with the message as evidence. The
// agent's own signature covers the message, and could never stand for the step.
func (l *Link) vouch(ctx context.Context, d *delivery, s step) (federation.Event, []federation.Loss, error) {
	id, err := federation.NewEventID(d.received, rand.Reader)
	if err != nil {
		return federation.Event{}, nil, err
	}
	key := l.kept(d.sender.Handle)
	ev := federation.Event{
		ID: id, Handoff: s.view.ID, Kind: s.view.Kind, Verb: s.Verb,
		From: key.DID, For: d.sender.StandsFor(s.view), Venue: s.view.Venue, Dialect: s.view.Dialect,
		ReplyTo: s.replyTo.String(), Note: s.Note, Context: s.Context, ContextHash: s.ContextHash,
		Provenance: federation.Vouched, Arrival: d.arrival(),
	}
	if s.Verb == federation.Offer {
		if err := l.open(ctx, d, s, &ev); err != nil {
			return federation.Event{}, nil, err
		}
	}
	original := signing.Original{Network: network, Received: d.received, Document: string(d.raw), KeyID: d.key.ID, Key: d.key.Public}
	evidence, err := l.deps.EvidenceOf(ctx, original, ev.Venue)
	if err != nil {
		return federation.Event{}, nil, err
	}
	ev.Evidence = &evidence
	ev, losses, err := signing.Vouch(ctx, key, ev, dialect.Write, l.deps.Evidence.Refer)
	if err != nil {
		return federation.Event{}, nil, fmt.Errorf("vouch for %s: %w", d.sender.Handle, err)
	}
	return ev, losses, nil
}

// arrival returns what is noted of where a message came in.
func (d *delivery) arrival() federation.Arrival {
	return federation.Arrival{Network: network, Link: network, Name: d.sender.Handle, Received: d.received}
}

// open makes a step the offer that opens a new handoff.
func (l *Link) open(ctx context.Context, d *delivery, s step, ev *federation.Event) error {
	ev.Handoff, ev.Kind, ev.To = ev.ID, federation.Handoff, d.recipient.did()
	ev.Title, ev.Caps, ev.Deadline, ev.Priority, ev.Replaces = s.Title, s.Caps, s.Deadline, s.Priority, s.Replaces
	place, tags, err := l.place(ctx, d, s, ev.From, ev.To)
	if err != nil {
		return err
	}
	ev.Dialect, ev.Venue, ev.Arrival.Place = tags, place.Venue, place
	if place.Venue == "" {
		ev.Venue = l.pair(ev.From, ev.To)
	}
	return nil
}

// place returns where an offer is written on IRC, and in which dialect. Between
// agents, and where no link is configured, it is written nowhere.
func (l *Link) place(ctx context.Context, d *delivery, s step, from, to federation.DID) (federation.Place, federation.Dialect, error) {
	channel, _ := translate.Channel(s.Channel) // what is none is as good as a channel that no link has
	place, tags, err := l.deps.Gateway.Place(ctx, from, to, channel)
	switch {
	case err != nil:
		return federation.Place{}, "", fmt.Errorf("find a place for an offer to %s: %w", d.recipient.handle, err)
	case place.Venue == "" && d.recipient.agent == nil && to != "":
		return federation.Place{}, "", &federation.UnavailableError{What: "network of " + d.recipient.handle, Err: errNoLink}
	case place.Venue == "":
		return place, federation.HandoffTags, nil
	}
	return place, tags, nil
}

// errNoLink says that the network of a user is not linked any more.
var errNoLink = errors.New("airc: no link reaches it")

// pair returns the venue of an offer that is made in private: with its recipient,
// or with the gateway where it is open.
func (l *Link) pair(from, to federation.DID) string {
	if to == "" {
		to = l.deps.Home.DID()
	}
	return federation.PrivateVenue(from, to)
}
