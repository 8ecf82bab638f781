// Package stepbuilder builds steps for networks whose messages are not steps. A step is signed by
// its sender, or by the gateway for the sender. The operator API and the networks of agents, MACP
// and files share these rules. The home decides whether a step is filed.
//
// A [Builder] is stateless and safe for concurrent use.
package stepbuilder

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

// Builder builds the steps that arrive on one network. Members are required unless their comments state
// otherwise.
type Builder struct {
	Network string // label of the network in metrics
	Link    string // name of the link; "" for the name of the network
	// ReadsInbox reports that the callers read their inbox, see [federation.Arrival].
	ReadsInbox bool
	Home       federation.HomeID
	Gateway    bridge.Gateway
	Record     registry.Bound
	// Signer, Evidence, Bindings and PublicURL are as in [bridge.Ports].
	Signer    bridge.Signer
	Evidence  bridge.Evidence
	Bindings  bridge.Bindings
	PublicURL string
	// ChannelLinks returns the links that can currently carry offers. Only offers that name a channel
	// need it.
	ChannelLinks func() []bridge.ChannelLink
	// Seen reports whether the gateway knows a DID. Only [Builder.Warnings] needs it.
	Seen func(ctx context.Context, did federation.DID) (bool, error)
}

// Warning is a reason why a filed step may not be delivered.
type Warning struct {
	// `never-seen`: this gateway knows no step, name, login or read inbox of the target DID.
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

const neverSeen = "never-seen"

// Warnings returns the warnings about a step, such as an offer to an unknown DID. Call it before
// submitting the step, because a filed offer may make the DID known.
func (s Builder) Warnings(ctx context.Context, ev federation.Event) ([]Warning, error) {
	if ev.Verb != federation.Offer || ev.To == "" {
		return nil, nil
	}
	if seen, err := s.Seen(ctx, ev.To); seen || err != nil {
		return nil, err
	}
	return []Warning{{neverSeen, "no step, name, login or read inbox of " + string(ev.To) + " is known here: check the DID"}}, nil
}

// Draft is an unsigned step.
type Draft struct {
	ID   federation.EventID // zero to mint one
	From federation.DID     // author of the step
	Name string             // name of From on the link; "" lets the gateway choose
	Verb federation.Verb
	// Proved reports that the caller has proved to be From. Otherwise the gateway vouches only for its
	// own agents and for DIDs bound by an operator with vouch.
	Proved bool
	// Original is the request, kept as evidence of the step; "" for none. The same text from the same
	// DID is the same step.
	Original string

	To          federation.DID // of an offer; "" for anyone
	Channel     string         // channel of an offer; "" lets the gateway choose
	Title       string
	Context     string
	ContextHash string
	Caps        []string
	Deadline    time.Time
	Priority    string
	Replaces    federation.HandoffID
	Note        string
	ReplyTo     string // "" for the offer
}

// Recipient parses the target DID of an offer. The home judges whether the DID can exist.
func Recipient(text string) (federation.DID, error) {
	did, err := federation.ParseDID(text)
	switch {
	case err == nil:
		return did, nil
	case strings.HasPrefix(text, "did:"):
		return "", &federation.RefusalError{Code: federation.InvalidTarget, Detail: "to: " + err.Error()}
	}
	return "", bridge.UsageProblem("to: " + err.Error())
}

// Vouch returns a step signed by the gateway for a DID, and the members of the draft that the step
// cannot contain; view is the handoff's current state, or zero for an offer. The error is a
// [*bridge.ProblemError], a [*federation.RefusalError] or an error of the record.
func (s Builder) Vouch(ctx context.Context, d Draft, view federation.View, now time.Time) (federation.Event, []federation.Loss, error) {
	key, standsFor, err := s.voucher(ctx, d, view)
	if err != nil {
		return federation.Event{}, nil, err
	}
	ev, err := s.begun(d, view, now)
	if err != nil {
		return federation.Event{}, nil, err
	}
	ev.From, ev.For = key.DID, standsFor
	var cut []federation.Loss
	if d.Verb == federation.Offer {
		d.Title, ev.Context, cut = translate.FitTitle(d.Title, d.Context)
		if ev.Context != d.Context {
			ev.ContextHash = "" // it covered the original context
		}
		if ev, err = s.opened(ctx, ev, d); err != nil {
			return federation.Event{}, nil, err
		}
	}
	if d.Original != "" {
		original := signing.Original{Network: s.Network, Received: now, Document: d.Original}
		evidence, err := original.Evidence(ctx, s.PublicURL, ev.Venue, s.Signer.Kept(signing.EvidenceSecret))
		if err != nil {
			return federation.Event{}, nil, err
		}
		ev.Evidence = &evidence
	}
	if ev.Arrival, err = s.arrival(ctx, ev, d.Name, now); err != nil {
		return federation.Event{}, nil, err
	}
	ev, losses, err := signing.Vouch(ctx, key, ev, dialect.Write, s.Evidence.Refer)
	for _, loss := range losses {
		if loss.Field == "context" { // the caller can shorten it
			return ev, nil, federation.Refuse(ev, federation.InvalidContext, loss.Why)
		}
	}
	return ev, append(cut, losses...), err
}

func (Builder) begun(d Draft, view federation.View, now time.Time) (federation.Event, error) {
	id := d.ID
	if id.IsZero() {
		var err error
		if id, err = federation.NewEventID(now, rand.Reader); err != nil {
			return federation.Event{}, err
		}
	}
	ev := federation.Event{
		ID: id, Handoff: view.ID, Kind: view.Kind, Verb: d.Verb,
		Venue: view.Venue, Dialect: view.Dialect, ReplyTo: d.ReplyTo, Note: d.Note, Context: d.Context, ContextHash: d.ContextHash,
		Provenance: federation.Vouched,
	}
	if ev.ReplyTo == "" {
		ev.ReplyTo = view.ID.String()
	}
	return ev, nil
}

func (s Builder) opened(ctx context.Context, ev federation.Event, d Draft) (federation.Event, error) {
	ev.Handoff, ev.Kind, ev.ReplyTo = ev.ID, federation.Handoff, ""
	ev.To, ev.Title, ev.Caps, ev.Deadline = d.To, d.Title, d.Caps, d.Deadline
	ev.Priority, ev.Replaces = d.Priority, d.Replaces
	place, tags, err := s.Place(ctx, ev.Actor(), ev.To, d.Channel)
	if err != nil {
		return ev, err
	}
	if tags == federation.ActTags && federation.Private(place.Venue) {
		place.Venue = s.Pair(ev.From, ev.To) // a server of these tags takes the signer for one of the pair
	}
	ev.Dialect, ev.Arrival.Place, ev.Venue = tags, place, place.Venue
	if ev.Venue == "" {
		ev.Venue = s.Pair(ev.From, ev.To)
	}
	return ev, nil
}

// Place returns the place of an offer on IRC, and its dialect. Without a place, the offer waits in
// the inbox of its recipient. A requested channel that no link carries is an error.
func (s Builder) Place(ctx context.Context, from, to federation.DID, channel string) (federation.ChannelRef, federation.Dialect, error) {
	if channel == "" {
		place, tags, err := s.Gateway.Place(ctx, from, to, "")
		if place.Venue == "" {
			tags = federation.HandoffTags
		}
		return place, tags, err
	}
	venue, ok := translate.Channel(channel)
	if !ok {
		return federation.ChannelRef{}, "", bridge.UsageProblem(fmt.Sprintf("channel: %q is not a channel", channel))
	}
	for _, placer := range s.ChannelLinks() {
		if slices.Contains(placer.Channels(), venue) {
			return federation.ChannelRef{Venue: venue}, placer.Dialect(), nil
		}
	}
	return federation.ChannelRef{}, "", &federation.RefusalError{Code: federation.InvalidTarget, Detail: "no link lists " + venue}
}

// Pair returns the venue of an offer without a place.
func (s Builder) Pair(from, to federation.DID) string {
	if to == "" {
		to = s.Home.DID()
	}
	return federation.PrivateVenue(from, to)
}

// arrival returns the place of arrival of a step. Its author has the given name there. An author
// without a name here or on another link gets a name of the gateway, so that others can reply.
func (s Builder) arrival(ctx context.Context, ev federation.Event, name string, now time.Time) (federation.Arrival, error) {
	at := ev.Arrival
	at.Network, at.Link, at.Name, at.ReadsInbox, at.Received = s.Network, cmp.Or(s.Link, s.Network), name, s.ReadsInbox, now
	if name != "" {
		return at, nil
	}
	b, err := s.Record.Binding(ctx, ev.Actor())
	switch {
	case err == nil && b.Link != at.Link:
		return at, nil
	case err != nil && !errors.Is(err, federation.ErrNotFound):
		return at, fmt.Errorf("look up %s: %w", ev.Actor(), err)
	}
	at.Name = s.Gateway.Name(ctx, ev.Actor())
	return at, nil
}
