package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/mailbox"
	"baton/federation/peering"
	"baton/federation/signing"
)

// HomeLink is a link to another home. Its name is that of the home.
type HomeLink interface {
	bridge.PeerHome
	// Known returns how the home is reached. It does not block.
	Known() federation.KnownHome
	// Blocked reports whether an operator blocked the home. It does not block.
	Blocked() bool
	// Move asks the home to take over the mailbox of a DID. It blocks on the network. A
	// [*federation.RefusalError] says why the home does not take it.
	Move(ctx context.Context, did federation.DID) error
	// ReportOffence notes a claim of the home that this gateway does not believe. It blocks on the
	// record.
	ReportOffence(ctx context.Context, kind federation.OffenceKind, why string)
}

// HomeLinks is the links to other homes in a [LinkSet]. It implements [mailbox.Peers].
type HomeLinks struct{ Links *LinkSet }

// All implements [mailbox.Peers].
func (h HomeLinks) All() iter.Seq[mailbox.Peer] {
	return func(yield func(mailbox.Peer) bool) {
		for _, r := range h.Links.current.Load().all {
			if home, ok := r.Link.(HomeLink); ok && !yield(mailboxPeer(home)) {
				return
			}
		}
	}
}

// Peer implements [mailbox.Peers].
func (h HomeLinks) Peer(home federation.HomeID) (mailbox.Peer, bool) {
	link, err := h.linked(home)
	if err != nil {
		return mailbox.Peer{}, false
	}
	return mailboxPeer(link), true
}

func mailboxPeer(home HomeLink) mailbox.Peer {
	return mailbox.Peer{Home: home.Home(), URL: home.Known().URL, Blocked: home.Blocked()}
}

func (h HomeLinks) linked(home federation.HomeID) (HomeLink, error) { //nolint:ireturn // the type is of package relay
	link, ok := h.Links.Named(string(home)).(HomeLink)
	if !ok {
		return nil, &federation.UnavailableError{What: "home " + string(home), Err: errors.New("it is no peer of this one")}
	}
	return link, nil
}

// Houses implements [mailbox.Peers].
func (h HomeLinks) Houses(ctx context.Context, home federation.HomeID, did federation.DID) (bool, error) {
	link, err := h.linked(home)
	if err != nil {
		return false, err
	}
	return link.Houses(ctx, did)
}

// Give implements [mailbox.Peers].
func (h HomeLinks) Give(ctx context.Context, home federation.HomeID, did federation.DID) error {
	link, err := h.linked(home)
	if err != nil {
		return err
	}
	return link.Move(ctx, did)
}

// Deliver implements [mailbox.Peers].
func (h HomeLinks) Deliver(ctx context.Context, home federation.HomeID, d federation.Delivery) error {
	link, err := h.linked(home)
	if err != nil {
		return err
	}
	return link.Deliver(ctx, d)
}

// ReportOffence implements [mailbox.Peers].
func (h HomeLinks) ReportOffence(ctx context.Context, home federation.HomeID, kind federation.OffenceKind, why string) {
	if link, err := h.linked(home); err == nil {
		link.ReportOffence(ctx, kind, why)
	}
}

// FromHomes submits the steps of other homes. It learns mailbox locations from them, and answers
// canaries.
type FromHomes struct {
	Home    federation.HomeID // this home
	Gateway *Gateway
	Locator *mailbox.Locator
	Canary  *peering.Canary
	Log     *slog.Logger
}

// Submit judges a step in a handoff of this home, with the errors of [Gateway.Submit].
func (f FromHomes) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	ev, err := f.Locator.LocalName(ctx, ev)
	if err != nil {
		return federation.Judgement{}, err
	}
	f.Gateway.FetchKey(ctx, ev)
	judged, err := f.Gateway.Submit(ctx, ev)
	if err == nil && !judged.Duplicate {
		f.Locator.LearnFromStep(ctx, ev, ev.Arrival.Home, time.Now())
	}
	return judged, err
}

// Ruled files a step that its home has ruled on, with the errors of [Gateway.Ruled].
func (f FromHomes) Ruled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	ev, err := f.Locator.LocalName(ctx, ev)
	if err != nil {
		return federation.Judgement{}, err
	}
	f.Gateway.FetchKey(ctx, ev)
	judged, err := f.Gateway.Ruled(ctx, ev, r)
	if err == nil && !judged.Duplicate && ev.Verb == federation.Offer && r.Home != f.Home {
		f.Locator.LearnFromStep(ctx, ev, r.Home, time.Now())
		if err := f.Canary.Answer(ctx, ev, r.Home); err != nil {
			f.Log.LogAttrs(ctx, slog.LevelWarn, "canary not completed", slog.String("peer", string(r.Home)), slog.Any("err", err))
		}
	}
	return judged, err
}

// Say files the text of a participant of another home, signed again with the text as that home
// signed it for evidence. The text goes to no third home.
func (f FromHomes) Say(ctx context.Context, ev federation.Event) (known bool, err error) {
	if ev, err = f.Locator.LocalName(ctx, ev); err != nil {
		return false, err
	}
	said, err := f.Gateway.Say(ctx, bridge.Message{
		ID: ev.ID, From: ev.For, To: bridge.Recipient{DID: ev.To}, Text: ev.Note, About: ev.About(), Arrival: ev.Arrival, Original: signing.OriginalOf(ev),
	})
	if errors.Is(err, federation.ErrNotFound) {
		err = federation.Refuse(ev, federation.InvalidTarget, "no participant of this home has this DID")
	}
	if err == nil && !said.Known {
		f.Locator.LearnFromStep(ctx, ev, ev.Arrival.Home, time.Now())
	}
	return said.Known, err
}

// GiveUp ends the wait of a step for its home, as [Gateway.GiveUp] does.
func (f FromHomes) GiveUp(ctx context.Context, p federation.Pending, code federation.RefusalCode, detail string) error {
	return f.Gateway.GiveUp(ctx, p, code, detail)
}

// Place returns where a new offer of another home is written on IRC here.
func (f FromHomes) Place(ctx context.Context, ev federation.Event) (federation.Place, error) {
	channel := ev.Venue
	if federation.Private(channel) {
		channel = ""
	}
	place, _, err := f.Gateway.Place(ctx, ev.From, ev.To, channel)
	return place, err
}

// Unrouted is the link whose outbox is [mailbox.Unrouted]. It has no connection.
type Unrouted struct{ Locator *mailbox.Locator }

// Name implements [bridge.Link].
func (Unrouted) Name() string { return mailbox.Unrouted }

// Network implements [bridge.Link].
func (Unrouted) Network() string { return HomeNetwork }

// Carries implements [bridge.Link]: [mailbox.Locator.Recipients] names this outbox.
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

// KnownHomes reads the homes that operators added while a gateway ran.
type KnownHomes interface {
	// KnownHomes returns them by name. It blocks on the record, and returns its error.
	KnownHomes(ctx context.Context) ([]federation.KnownHome, error)
}

// HomeOpener opens links to other homes.
type HomeOpener interface {
	// OpenHome returns the link to a home that an operator added. It does not block.
	OpenHome(known federation.KnownHome) Entry
	// OpenUnrouted returns the link of the outbox [mailbox.Unrouted]. It does not block.
	OpenUnrouted() Entry
}

// AddedHomes adds the homes that operators added to the links of a configuration, and changes them
// while a gateway runs. It implements [peering.Links].
type AddedHomes struct {
	Gateway *Gateway
	Record  KnownHomes
	Locator *mailbox.Locator
	Opener  HomeOpener
	// Changing is locked while the links change.
	Changing sync.Locker
	// Peer reports whether a home or a registry has a name.
	Peer func(name string) bool
	// Forget drops the keys of a DID that are held in memory.
	Forget func(did federation.DID)
}

// Join returns the links of a configuration with those to the added homes. A home in both is left
// out and an error.
func (a AddedHomes) Join(ctx context.Context, links []Entry) ([]Entry, error) {
	known, err := a.Record.KnownHomes(ctx)
	if err != nil {
		return nil, err
	}
	if links, err = a.join(links, known); err != nil {
		return links, err
	}
	knows, err := a.Locator.KnowsHomes(ctx)
	if knows && !hasLink(links, mailbox.Unrouted) { // steps wait for the routes of homes that were peers
		links = append(links, a.Opener.OpenUnrouted())
	}
	return links, err
}

func hasLink(links []Entry, name string) bool {
	return slices.ContainsFunc(links, func(o Entry) bool { return o.Link.Name() == name })
}

func (a AddedHomes) join(links []Entry, known []federation.KnownHome) ([]Entry, error) {
	taken := func(name string) bool { return hasLink(links, name) }
	free, err := peering.Linkable(known, taken)
	for _, each := range free {
		links = append(links, a.Opener.OpenHome(each))
		if !taken(mailbox.Unrouted) {
			links = append(links, a.Opener.OpenUnrouted())
		}
	}
	return links, err
}

// Link implements [peering.Links].
func (a AddedHomes) Link(name string) (peering.Link, bool) {
	links := a.Gateway.Links()
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
func (a AddedHomes) Added() []federation.KnownHome {
	var added []federation.KnownHome
	for _, entry := range a.Gateway.Links().Entries() {
		if home, ok := entry.Link.(HomeLink); ok && entry.Added {
			added = append(added, home.Known())
		}
	}
	return added
}

// IsPeer implements [peering.Links].
func (a AddedHomes) IsPeer(name string) bool { return a.Peer(name) }

// Relink implements [peering.Links].
func (a AddedHomes) Relink(ctx context.Context) error {
	a.Changing.Lock()
	defer a.Changing.Unlock()
	links := slices.DeleteFunc(a.Gateway.Links().Entries(), func(o Entry) bool { return o.Added })
	known, err := a.Record.KnownHomes(ctx)
	if err != nil {
		return err
	}
	links, err = a.join(links, known)
	a.Gateway.Links().Apply(ctx, links)
	return err
}

// ForgetKeys implements [peering.Links].
func (a AddedHomes) ForgetKeys(did federation.DID) { a.Forget(did) }

// TellReplicas implements [peering.Links].
func (a AddedHomes) TellReplicas() { a.Gateway.TellReplicas() }

// endpointed is a link to a server that others of its network know by the id of an endpoint.
type endpointed interface {
	bridge.Homed
	Endpoint() string
}

// Endpoint returns the endpoint id of the server that is a home, where a link leads to it, else
// "".
func (g *Gateway) Endpoint(home federation.HomeID) string {
	for _, r := range g.links.current.Load().all {
		if link, ok := r.Link.(endpointed); ok && link.Home() == home {
			return link.Endpoint()
		}
	}
	return ""
}

// admitter is a link to a home that ignores some steps which the rules of this gateway allow.
type admitter interface {
	bridge.Homed
	// Admits returns a [*federation.RefusalError] for a step that the home would ignore.
	Admits(ctx context.Context, h federation.Pending) error
}

// admitted ends the wait of a step of this gateway's people that its home would ignore, and
// returns the refusal. What cannot be told now is left to the link, which tells the signer
// later.
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
