package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/peering"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/signing"
)

// HomeLink is a link to another home, named after the home.
type HomeLink interface {
	bridge.PeerHome
	bridge.TextLink
	// Known returns the address data of the home.
	Known() federation.KnownHome
	// Blocked reports whether an operator blocked the home.
	Blocked() bool
	// Move asks the home to take over the mailbox of a DID. It blocks on the network. If the home
	// refuses, the error is a [*federation.RefusalError].
	Move(ctx context.Context, did federation.DID) error
	// ReportMisbehavior records an invalid claim of the home.
	ReportMisbehavior(ctx context.Context, kind federation.MisbehaviorKind, why string)
}

// HomeLinks is the links to other homes in a [LinkSet]. It implements [routing.Peers].
type HomeLinks struct{ Links *LinkSet }

// All implements [routing.Peers].
func (h HomeLinks) All() iter.Seq[routing.Peer] {
	return func(yield func(routing.Peer) bool) {
		for _, r := range h.Links.current.Load().all {
			if home, ok := r.Link.(HomeLink); ok && !yield(mailboxPeer(home)) {
				return
			}
		}
	}
}

// Peer implements [routing.Peers].
func (h HomeLinks) Peer(home federation.HomeID) (routing.Peer, bool) {
	link, err := h.linked(home)
	if err != nil {
		return routing.Peer{}, false
	}
	return mailboxPeer(link), true
}

func mailboxPeer(home HomeLink) routing.Peer {
	return routing.Peer{Home: home.Home(), URL: home.Known().URL, Blocked: home.Blocked()}
}

func (h HomeLinks) linked(home federation.HomeID) (HomeLink, error) { //nolint:ireturn // the type is of package relay
	link, ok := h.Links.Named(string(home)).(HomeLink)
	if !ok {
		return nil, &federation.UnavailableError{What: "home " + string(home), Err: errors.New("it is not a peer of this home")}
	}
	return link, nil
}

// Houses implements [routing.Peers].
func (h HomeLinks) Houses(ctx context.Context, home federation.HomeID, did federation.DID) (bool, error) {
	link, err := h.linked(home)
	if err != nil {
		return false, err
	}
	return link.Houses(ctx, did)
}

// Give implements [routing.Peers].
func (h HomeLinks) Give(ctx context.Context, home federation.HomeID, did federation.DID) error {
	link, err := h.linked(home)
	if err != nil {
		return err
	}
	return link.Move(ctx, did)
}

// Deliver implements [routing.Peers].
func (h HomeLinks) Deliver(ctx context.Context, home federation.HomeID, d federation.Delivery) error {
	link, err := h.linked(home)
	if err != nil {
		return err
	}
	return link.Deliver(ctx, d)
}

// DeliverText implements [routing.Peers].
func (h HomeLinks) DeliverText(ctx context.Context, home federation.HomeID, t federation.Text) error {
	link, err := h.linked(home)
	if err != nil {
		return err
	}
	return link.DeliverText(ctx, t)
}

// ReportMisbehavior implements [routing.Peers].
func (h HomeLinks) ReportMisbehavior(ctx context.Context, home federation.HomeID, kind federation.MisbehaviorKind, why string) {
	if link, err := h.linked(home); err == nil {
		link.ReportMisbehavior(ctx, kind, why)
	}
}

// Submit judges a step of another home in a local handoff, with the errors of [Gateway.Submit]. It
// records the author's mailbox location, which the step reveals.
func (h *homes) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	var err error
	if ev.Arrival.Name, err = h.locator.LocalName(ctx, ev.Actor(), ev.Arrival.Name); err != nil {
		return federation.Judgement{}, err
	}
	judged, err := h.Gateway.Submit(ctx, ev)
	if err == nil && !judged.Duplicate {
		h.locator.LearnFromStep(ctx, ev.Actor(), ev.Provenance, ev.Arrival.Home, time.Now())
	}
	return judged, err
}

// FileRuled files a step that its home has ruled on, with the errors of [Gateway.FileRuled]. It
// answers canaries of other homes.
func (h *homes) FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	var err error
	if ev.Arrival.Name, err = h.locator.LocalName(ctx, ev.Actor(), ev.Arrival.Name); err != nil {
		return federation.Judgement{}, err
	}
	judged, err := h.Gateway.FileRuled(ctx, ev, r)
	if err == nil && !judged.Duplicate && ev.Verb == federation.Offer && r.Home != h.homeID() {
		h.locator.LearnFromStep(ctx, ev.Actor(), ev.Provenance, r.Home, time.Now())
		if err := h.canary.Answer(ctx, ev, r.Home); err != nil {
			h.log.LogAttrs(ctx, slog.LevelWarn, "canary not completed", slog.String("peer", string(r.Home)), slog.Any("err", err))
		}
	}
	return judged, err
}

// Say stores the text of a participant of another home. It signs the text again, and keeps the text
// signed by that home as evidence. The text is not forwarded to a third home.
func (h *homes) Say(ctx context.Context, t federation.Text) (known bool, err error) {
	if t.Arrival.Name, err = h.locator.LocalName(ctx, t.Author, t.Arrival.Name); err != nil {
		return false, err
	}
	said, err := h.Gateway.Say(ctx, federation.Text{ID: t.ID, Author: t.Author, To: t.To, Body: t.Body, About: t.About, Arrival: t.Arrival},
		signing.OriginalOf(t.Signature, t.Arrival))
	if errors.Is(err, federation.ErrNotFound) {
		err = t.Refuse(federation.InvalidTarget, "no participant of this home has this DID")
	}
	if err == nil && !said.Known {
		h.locator.LearnFromStep(ctx, t.Author, federation.Vouched, t.Arrival.Home, time.Now())
	}
	return said.Known, err
}

// RejectPending calls [Gateway.RejectPending].
func (h *homes) RejectPending(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error {
	return h.Gateway.RejectPending(ctx, p, code, detail)
}

// Place returns the local channel for a new offer of another home.
func (h *homes) Place(ctx context.Context, ev federation.Event) (federation.ChannelRef, error) {
	channel := ev.Venue
	if federation.Private(channel) {
		channel = ""
	}
	place, _, err := h.Gateway.Place(ctx, ev.From, ev.To, channel)
	return place, err
}

// Unrouted is the link whose outbox is [routing.Unrouted]. It has no connection.
type Unrouted struct{ Locator *routing.Locator }

// Name implements [bridge.Link].
func (Unrouted) Name() string { return routing.Unrouted }

// Network implements [bridge.Link].
func (Unrouted) Network() string { return HomeNetwork }

// Carries implements [bridge.Link]: only [routing.Locator.Recipients] selects this outbox.
func (Unrouted) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Run implements [bridge.Link].
func (Unrouted) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	return ctx.Err()
}

// Deliver implements [bridge.Link].
func (u Unrouted) Deliver(ctx context.Context, d federation.Delivery) error {
	return u.Locator.Deliver(ctx, d, time.Now())
}

// DeliverText implements [bridge.TextLink].
func (u Unrouted) DeliverText(ctx context.Context, t federation.Text) error {
	return u.Locator.DeliverText(ctx, t, time.Now())
}

// join returns the links of a configuration with the links to added homes. It omits an added
// home that is also configured, and returns an error.
func (h *homes) join(ctx context.Context, links []Entry) ([]Entry, error) {
	known, err := h.Record.KnownHomes(ctx)
	if err != nil {
		return nil, err
	}
	if links, err = h.addTo(links, known); err != nil {
		return links, err
	}
	knows, err := h.locator.KnowsHomes(ctx)
	if knows && !hasLink(links, routing.Unrouted) { // steps wait for the routes of former peers
		links = append(links, h.openUnrouted())
	}
	return links, err
}

func hasLink(links []Entry, name string) bool {
	return slices.ContainsFunc(links, func(o Entry) bool { return o.Link.Name() == name })
}

func (h *homes) addTo(links []Entry, known []federation.KnownHome) ([]Entry, error) {
	taken := func(name string) bool { return hasLink(links, name) }
	free, err := peering.Linkable(known, taken)
	for _, each := range free {
		links = append(links, h.openHome(each))
		if !taken(routing.Unrouted) {
			links = append(links, h.openUnrouted())
		}
	}
	return links, err
}

// Link implements [peering.Links].
func (h *homes) Link(name string) (peering.Link, bool) {
	links := h.Gateway.Links()
	entries := links.Entries()
	i := slices.IndexFunc(entries, func(o Entry) bool { return o.Link.Name() == name })
	if i < 0 {
		return peering.Link{}, false
	}
	link := peering.Link{Added: entries[i].Added}
	if home, ok := entries[i].Link.(HomeLink); ok {
		link.Home, link.URL = true, home.Known().URL
	}
	for _, s := range links.Statuses() {
		if s.Link.Name() == name {
			link.Up, link.LastError = s.Status.State == bridge.LinkUp, s.Status.LastError
		}
	}
	return link, true
}

// Added implements [peering.Links].
func (h *homes) Added() []federation.KnownHome {
	var added []federation.KnownHome
	for _, entry := range h.Gateway.Links().Entries() {
		if home, ok := entry.Link.(HomeLink); ok && entry.Added {
			added = append(added, home.Known())
		}
	}
	return added
}

// IsPeer implements [peering.Links].
func (h *homes) IsPeer(name string) bool {
	return slices.ContainsFunc(h.Peers(), func(peer admin.Peer) bool { return peer.Name == name })
}

// Relink implements [peering.Links].
func (h *homes) Relink(ctx context.Context) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	links := slices.DeleteFunc(h.Gateway.Links().Entries(), func(o Entry) bool { return o.Added })
	known, err := h.Record.KnownHomes(ctx)
	if err != nil {
		return err
	}
	links, err = h.addTo(links, known)
	h.Gateway.Links().Apply(ctx, links)
	return err
}

// ForgetKeys implements [peering.Links].
func (h *homes) ForgetKeys(did federation.DID) { h.forgetKeys(did) }

// TellReplicas implements [peering.Links].
func (h *homes) TellReplicas() { h.Gateway.TellReplicas() }

type endpointed interface {
	bridge.Homed
	Endpoint() string
}

// Endpoint returns the endpoint ID of the server of a linked home, or "".
func (g *Gateway) Endpoint(home federation.HomeID) string {
	for _, r := range g.links.current.Load().all {
		if link, ok := r.Link.(endpointed); ok && link.Home() == home {
			return link.Endpoint()
		}
	}
	return ""
}

// admitter is a link to a home with stricter rules than this gateway.
type admitter interface {
	bridge.Homed
	// Admits returns a [*federation.RefusalError] for a step that the home would ignore.
	Admits(ctx context.Context, h federation.Pending) error
}

// admitted ends the wait of a local step that its home would ignore, and returns the refusal. If
// this is not yet known, the link notifies the signer later.
func (g *Gateway) admitted(ctx context.Context, judged federation.Judgement) error {
	ev := judged.Entry.Event
	if ev.Arrival.Home != "" {
		return nil
	}
	for _, r := range g.links.current.Load().all {
		link, ok := r.Link.(admitter)
		if !ok || link.Home() != judged.View.Home {
			continue
		}
		err := link.Admits(ctx, federation.Pending{Event: ev, Home: judged.View.Home, Since: judged.Entry.Filed})
		if refused, isRefusal := errors.AsType[*federation.RefusalError](err); isRefusal {
			if err := g.home.Load().Drop(ctx, ev); err != nil {
				return fmt.Errorf("drop %s: %w", ev.ID, err)
			}
			return refused
		}
	}
	return nil
}
