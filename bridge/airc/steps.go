package airc

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/aircmsg"
	"github.com/baton-gateway/baton/translate/dialect"
)

// errPlain marks a message without a step, which is valid between two agents.
var errPlain = fmt.Errorf("airc: plain message: %w", translate.ErrNotHandoff)

type step struct {
	aircmsg.Step

	view     federation.View  // zero for an offer
	expected federation.State // for the sender (see [bridge.Gateway].Expected)
	replyTo  federation.EventID
}

// readStep returns [errPlain] for a plain message, and for a message between agents that names no
// handoff. It rejects an invalid step that opens or names a handoff.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) readStep(ctx context.Context, d *inbound) (step, error) {
	if d.payload == nil {
		return step{}, errPlain
	}
	read, err := aircmsg.Decode(d.payload)
	mayBePlain := d.recipient.agent != nil && !read.Explicit // the meaning of a type is up to agents
	switch {
	case errors.Is(err, translate.ErrNotHandoff):
		return step{}, errPlain
	case err != nil && mayBePlain && read.Verb != federation.Offer:
		return step{}, l.refuseNamed(ctx, d, step{Step: read}, err)
	case err != nil:
		return step{}, err
	case read.Verb == federation.Offer && d.recipient.handle == d.from && mayBePlain:
		return step{}, errPlain // a note to oneself
	case read.Verb == federation.Offer && d.recipient.handle == d.from:
		return step{}, misdirected(federation.View{}, "an offer needs another recipient than its author")
	case read.Verb == federation.Offer:
		return step{Step: read}, nil
	}
	s := step{Step: read}
	if err := l.locate(ctx, d, &s); err != nil {
		return step{}, err
	}
	switch {
	case s.view.Exists():
	case mayBePlain:
		return step{}, errPlain
	default:
		return step{}, &federation.RefusalError{Code: federation.UnknownHandoff, Handoff: s.Handoff}
	}
	if !s.Explicit && (s.Verb == federation.Accept || s.Verb == federation.Decline) && s.replyTo != s.view.ID {
		return step{}, errPlain // acknowledges a message of the handoff, not the offer
	}
	var parties []federation.DID
	for _, did := range s.view.Others(d.sender.DID) {
		if !d.sender.Is(did) {
			parties = append(parties, did)
		}
	}
	if !slices.ContainsFunc(parties, d.recipient.is) && (d.recipient.did() != "" || len(parties) > 0) {
		return step{}, misdirected(s.view, "to is not the handle of the other party")
	}
	return s.fitted(), nil
}

// refuseNamed returns [errPlain] if the message names no handoff.
func (l *Link) refuseNamed(ctx context.Context, d *inbound, s step, refusal error) error {
	if err := l.locate(ctx, d, &s); err != nil {
		return err
	}
	if !s.view.Exists() {
		return errPlain
	}
	return refusal
}

func misdirected(v federation.View, detail string) error {
	return &federation.RefusalError{Code: federation.InvalidTarget, Handoff: v.ID, View: v, Detail: detail}
}

// fitted chooses the verb for the handoff: AIRC has one word for several steps.
//
// spec: airc-shapes "A step as payload"
func (s step) fitted() step {
	switch {
	case s.Explicit:
	case s.Verb == federation.Accept && s.view.Offeree == "":
		s.Verb = federation.Claim
	case s.Verb == federation.Fail && (s.expected == federation.Offered || s.expected == federation.Declined):
		s.Verb = federation.Decline // also if already declined: a repeated message is the same step
	}
	return s
}

func (s step) implied() federation.Verb {
	switch {
	case s.Verb != federation.Complete:
	case s.expected == federation.Offered:
		return federation.Accept
	case s.expected == federation.Open:
		return federation.Claim
	}
	return ""
}

// locate leaves the view zero if no handoff is known.
func (l *Link) locate(ctx context.Context, d *inbound, s *step) error {
	id := s.Handoff
	for _, ref := range s.Refs {
		m, err := l.deps.Record.Named(ctx, d.from, ref)
		switch {
		case errors.Is(err, federation.ErrNotFound), err == nil && m.Handoff.IsZero():
			continue
		case err != nil:
			return fmt.Errorf("look up message: %w", err)
		case !id.IsZero() && id != m.Handoff:
			return wire.Refuse(wire.CodeBadRequest, "the payload names two handoffs")
		}
		id, s.replyTo = m.Handoff, m.Event
	}
	if s.replyTo.IsZero() {
		s.replyTo = id // it answers the offer, whose event has the ID of the handoff
	}
	if id.IsZero() {
		return nil
	}
	view, err := l.deps.Gateway.View(ctx, id)
	if err != nil {
		return fmt.Errorf("read handoff %s: %w", id, err)
	}
	expected, err := l.deps.Gateway.Expected(ctx, id, cmp.Or(d.sender.StandsFor(view), d.sender.DID))
	if err != nil {
		return fmt.Errorf("read handoff %s: %w", id, err)
	}
	s.Handoff, s.view, s.expected = id, view, expected.State
	return nil
}

// lost uses the sender's terms.
func (s step) lost(losses []federation.Loss) []string {
	var names []string
	for _, loss := range slices.Concat(s.Losses, losses) {
		if loss.Field != "context" {
			names = append(names, loss.Field)
			continue
		}
		var members map[string]json.RawMessage
		artifacts := s.Verb != federation.Offer && federation.DecodeJSON([]byte(s.Context), &members) == nil && members["artifacts"] != nil
		if !artifacts || len(members) > 1 {
			names = append(names, "context")
		}
		if artifacts {
			names = append(names, "artifacts")
		}
	}
	return names
}

// submit returns the result of the last step. If the gateway vouches, it first submits any implied step.
func (l *Link) submit(ctx context.Context, d *inbound, s step) (*filed, error) {
	// The registry of a remote sender vouches for it, because the sender's keys are unknown here.
	if _, isRemote := wire.SplitAddress(d.from); s.Proof != nil && !isRemote {
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
		if _, err := l.file(ctx, d, ev, nil); err != nil {
			return nil, err
		}
	}
	ev, losses, err := l.vouch(ctx, d, s)
	if err != nil {
		return nil, err
	}
	return l.file(ctx, d, ev, s.lost(losses))
}

func (l *Link) file(ctx context.Context, d *inbound, ev federation.Event, lost []string) (*filed, error) {
	d.charged = d.charged || ev.From == d.sender.DID
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

// vouch uses the message as evidence: the agent's own signature covers only the message.
func (l *Link) vouch(ctx context.Context, d *inbound, s step) (federation.Event, []federation.Loss, error) {
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
	original := signing.Original{Network: wire.Network, Received: d.received, Document: string(d.raw), KeyID: d.key.ID, Key: d.key.Public}
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

func (d *inbound) arrival() federation.Arrival {
	return federation.Arrival{Network: wire.Network, Link: wire.Network, Name: d.sender.Handle, Received: d.received}
}

func (l *Link) open(ctx context.Context, d *inbound, s step, ev *federation.Event) error {
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

// place returns nothing between agents, or without a configured link.
func (l *Link) place(ctx context.Context, d *inbound, s step, from, to federation.DID) (federation.ChannelRef, federation.Dialect, error) {
	channel, _ := translate.Channel(s.Channel) // an invalid channel is treated like a channel of no link
	place, tags, err := l.deps.Gateway.Place(ctx, from, to, channel)
	switch {
	case err != nil:
		return federation.ChannelRef{}, "", fmt.Errorf("find a place for an offer to %s: %w", d.recipient.handle, err)
	case place.Venue != "":
		return place, tags, nil
	case d.recipient.agent == nil && to != "":
		declared, err := l.deps.Record.DeclaresItself(ctx, to) // if so, it reads its inbox here
		if err == nil && !declared {
			err = &federation.UnavailableError{What: "network of " + d.recipient.handle, Err: errNoLink}
		}
		if err != nil {
			return federation.ChannelRef{}, "", err
		}
	}
	return place, federation.HandoffTags, nil
}

var errNoLink = errors.New("airc: no link reaches it")

// pair returns the venue of a private offer, or the gateway's for an open offer.
func (l *Link) pair(from, to federation.DID) string {
	if to == "" {
		to = l.deps.Home.DID()
	}
	return federation.PrivateVenue(from, to)
}

// attest requires the payload to match the step that the agent signed.
//
// spec: airc-shapes "A step as payload"
func (l *Link) attest(ctx context.Context, d *inbound, s step) (federation.Event, error) {
	ev, err := readProof(*s.Proof)
	if err != nil {
		return federation.Event{}, err
	}
	ev.Arrival = d.arrival()
	if err := d.verify(ctx, ev, *s.Proof); err != nil {
		return federation.Event{}, err
	}
	if s.Verb == federation.Offer {
		return l.checkOffer(ctx, d, s, ev)
	}
	if ev.Verb != s.Verb || ev.Handoff != s.view.ID {
		return federation.Event{}, errOtherStep()
	}
	return ev, nil
}

func errOtherStep() error {
	return wire.Refuse(wire.CodeBadRequest, "the document in proof differs from the payload")
}

func readProof(p aircmsg.Proof) (federation.Event, error) {
	ev, err := dialect.FromDocument(p.Document)
	if _, refused := errors.AsType[*federation.RefusalError](err); refused {
		return federation.Event{}, err
	}
	if err != nil {
		return federation.Event{}, wire.Refuse(wire.CodeBadRequest, "the document in proof is not a step")
	}
	if ev.Dialect != p.Scheme {
		return federation.Event{}, wire.Refuse(wire.CodeBadRequest, "the document in proof is not in the tags of its scheme")
	}
	ev.Signature.Text = p.Signature
	return ev, nil
}

func (d *inbound) verify(ctx context.Context, ev federation.Event, p aircmsg.Proof) error {
	invalid := func(detail string) error { return federation.Refuse(ev, federation.SignatureInvalid, detail) }
	var key agents.Key
	for _, own := range d.sender.Keys {
		if own.Signs(d.received) && own.DID == ev.From {
			key = own
		}
	}
	switch {
	case key.ID == "":
		return invalid("the proof is not signed by the did:key of its sender")
	case p.PublicKey != base64.RawURLEncoding.EncodeToString(key.Public):
		return invalid("publicKey does not belong to the sender")
	}
	judged, verdict, _ := signing.Verify(ctx, ownKey(key.Public), ev) // the only key is known: the verdict suffices
	if verdict != federation.Valid || judged.Signature.Document != p.Document {
		return invalid("")
	}
	return nil
}

func (l *Link) checkOffer(ctx context.Context, d *inbound, s step, ev federation.Event) (federation.Event, error) {
	switch {
	case ev.Verb != federation.Offer, !s.Handoff.IsZero() && s.Handoff != ev.Handoff:
		return federation.Event{}, errOtherStep()
	case !d.recipient.is(ev.To):
		return federation.Event{}, misdirected(federation.View{}, "the document in proof is addressed to another DID")
	case ev.Venue != l.pair(ev.From, ev.To):
		return federation.Event{}, misdirected(federation.View{}, "an offer in proof is signed for the pair of DIDs")
	}
	var err error
	ev.Arrival.Place, _, err = l.place(ctx, d, s, ev.From, ev.To)
	return ev, err
}

type ownKey ed25519.PublicKey

// Keys implements [federation.KeySource].
func (k ownKey) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return []ed25519.PublicKey{ed25519.PublicKey(k)}, nil
}

// KeyOwner implements [federation.KeySource].
func (ownKey) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}
