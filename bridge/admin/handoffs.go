package admin

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// lookTime bounds a search; after it, the partial page is returned. The record reads handoffs in
// batches of about 100 ms, and possibly none of them matches.
const lookTime = 250 * time.Millisecond

type handoffList struct {
	o      *Operator
	filter federation.Filter
	found  []federation.View // if set, the only handoffs in the list
}

func (o *Operator) handoffs(ctx context.Context, query HandoffQuery) (listing[Handoff], error) {
	f := federation.Filter{
		State: federation.State(query.State), Kind: federation.Kind(query.Kind),
		Capability: query.Capability,
	}
	var err error
	if text := query.DID; text != "" {
		did, err := parseDID("did", text)
		if err != nil {
			return listing[Handoff]{}, err
		}
		f.DIDs = []federation.DID{did}
	}
	if text := query.Channel; text != "" {
		if f.Venue, err = parseChannel(text); err != nil {
			return listing[Handoff]{}, err
		}
	}
	if text := query.Since; text != "" {
		if f.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return listing[Handoff]{}, usage("since is a time such as 2026-11-21T12:00:00Z")
		}
	}
	l, err := handoffList{o: o, filter: f}.search(ctx, strings.TrimSpace(query.Search))
	return listing[Handoff]{l.page, l.news}, err
}

func (l handoffList) search(ctx context.Context, text string) (handoffList, error) {
	if text == "" {
		return l, nil
	}
	if did, err := federation.ParseDID(text); err == nil && len(l.filter.DIDs) == 0 {
		l.filter.DIDs = []federation.DID{did}
		return l, nil
	}
	ids, err := l.o.namedBy(ctx, strings.ToUpper(text))
	if err != nil {
		return l, err
	}
	for _, id := range ids {
		view, err := l.o.deps.Gateway.View(ctx, id)
		if err != nil {
			return l, fmt.Errorf("read handoff %s: %w", id, err)
		}
		if view.Exists() && l.filter.Admits(view) {
			l.found = append(l.found, view)
		}
	}
	l.filter.Title = text
	return l, nil
}

func (o *Operator) namedBy(ctx context.Context, text string) ([]federation.HandoffID, error) {
	if id, err := federation.ParseEventID(text); err == nil {
		return []federation.HandoffID{id}, nil
	}
	if len(text) < federation.MinSuffix {
		return nil, nil
	}
	return o.deps.Record.Find(ctx, text)
}

func parseChannel(text string) (string, error) {
	venue, ok := translate.Channel(text)
	if !ok {
		return "", usage(fmt.Sprintf("channel: %q is not a channel", text))
	}
	return venue, nil
}

func (l handoffList) page(ctx context.Context, cursor string, limit int) (Page[Handoff], error) {
	views, next, err := l.read(ctx, l.filter, federation.Cursor(cursor), limit)
	if err != nil {
		return Page[Handoff]{}, err
	}
	page := Page[Handoff]{Items: make([]Handoff, len(views)), NextCursor: string(next)}
	for i, v := range views {
		page.Items[i] = l.o.shapeHandoff(v, time.Now())
	}
	return page, nil
}

func (l handoffList) read(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error) {
	if len(l.found) > 0 {
		return l.found, "", nil
	}
	var views []federation.View
	for start := time.Now(); ; {
		more, next, err := l.o.deps.Record.Handoffs(ctx, f, after, limit-len(views))
		if err != nil {
			return nil, "", fmt.Errorf("list handoffs: %w", err)
		}
		views, after = append(views, more...), next
		if next == "" || len(views) >= limit || time.Since(start) > lookTime {
			return views, after, nil
		}
	}
}

// news returns the handoffs changed since the newest reported change, in the order of their
// changes.
func (l handoffList) news(ctx context.Context, cursor string, limit int) func() ([]Handoff, error) {
	reported := map[federation.HandoffID]federation.Version{} // handoffs that changed at the newest reported time
	filter, after := l.filter, federation.Cursor(cursor)
	return func() ([]Handoff, error) {
		views, next, err := l.read(ctx, filter, after, limit)
		for err == nil && next != "" && !filter.Since.IsZero() { // more than a page changed
			var more []federation.View
			more, next, err = l.read(ctx, filter, next, MaxLimit)
			views = append(views, more...)
		}
		if err != nil {
			return nil, err
		}
		after = "" // changed handoffs are at the front
		var items []Handoff
		newest := map[federation.HandoffID]federation.Version{}
		for _, v := range slices.Backward(views) {
			if reported[v.ID] != v.Version {
				items = append(items, l.o.shapeHandoff(v, time.Now()))
			}
			newest[v.ID] = v.Version
		}
		if len(views) > 0 {
			filter.Since, reported = views[0].Moved, newest
		}
		return items, nil
	}
}

func (o *Operator) getHandoff(ctx context.Context, in IDPage) (Handoff, error) {
	var after uint64
	var err error
	if text := in.Cursor; text != "" {
		if after, err = strconv.ParseUint(text, 10, 63); err != nil {
			return Handoff{}, federation.ErrUnknownCursor
		}
	}
	view, err := o.find(ctx, in.ID)
	if err != nil {
		return Handoff{}, err
	}
	shown := o.shapeHandoff(view, time.Now())
	if err := o.steps(ctx, &shown, view, federation.Version(after), limitOf(in.Paging)); err != nil {
		return Handoff{}, err
	}
	if after == 0 {
		if shown.Messages, err = o.messages(ctx, view.ID); err != nil {
			return Handoff{}, err
		}
	}
	return shown, nil
}

func (o *Operator) whyOrphaned(v federation.View, now time.Time) string {
	if !v.Remote {
		return ""
	}
	var links []bridge.Link
	up := map[string]bool{}
	for _, s := range o.deps.Links.Statuses() {
		links = append(links, s.Link)
		up[s.Link.Name()] = s.Status.State == bridge.LinkUp
	}
	return bridge.WhyOrphaned(v, links, func(l bridge.Link) bool { return up[l.Name()] }, now)
}

func (o *Operator) steps(ctx context.Context, h *Handoff, view federation.View, after federation.Version, limit int) error {
	held, err := o.holds(ctx)
	if err != nil {
		return err
	}
	became, err := o.deliveries(ctx, view, held)
	if err != nil {
		return err
	}
	for entry, err := range o.deps.Record.Log(ctx, view.ID, after) {
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		if len(h.Steps) == limit {
			h.NextCursor = strconv.FormatUint(uint64(entry.Version-1), 10)
			break
		}
		step := shapeStep(entry, o.deps.Gateway.Name(ctx, entry.Event.Actor()))
		for _, d := range became[entry.Event.ID] {
			shown := Delivery{To: o.addressee(ctx, d, view, entry.Event), Via: d.Link, State: d.State, Code: endCode(d), Time: Moment(d.Ended)}
			if d.State == federation.DeliveryWaiting {
				shown.Via = cmp.Or(d.Queue, d.Link)
				shown.Hold = held[shown.Via]
			}
			step.Delivered = append(step.Delivered, shown)
		}
		h.Steps = append(h.Steps, step)
	}
	return nil
}

func endCode(d federation.Delivered) string {
	if d.State == federation.DeliveryWaiting {
		return ""
	}
	return d.Reason
}

// A step that waits for the mailbox of a DID at another home, or for a route to it, is not in an
// inbox here.
func (o *Operator) deliveries(ctx context.Context, view federation.View, held map[string]Hold) (map[federation.EventID][]federation.Delivered, error) {
	names := []string{federation.UnroutedLink}
	for _, l := range o.deps.Links.Statuses() {
		names = append(names, l.Link.Name())
	}
	routes, err := o.deps.Server.MailboxRoutes(ctx, view)
	if err != nil {
		return nil, err
	}
	away := map[string]bool{}
	for _, at := range routes {
		if at.Home != "" && at.Home != o.deps.Home {
			away[string(at.DID)] = true
			names = append(names, string(at.Home))
		}
	}
	slices.Sort(names)
	all, err := o.deps.Record.Deliveries(ctx, view.ID, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	became := map[federation.EventID][]federation.Delivered{}
	for _, d := range all {
		if d.Link == federation.InboxLink && d.State == federation.DeliveryWaiting && away[d.Participant] {
			continue
		}
		became[d.Event] = append(became[d.Event], d)
	}
	return became, o.addHeld(ctx, view.ID, held, became)
}

func (o *Operator) addHeld(ctx context.Context, id federation.HandoffID, held map[string]Hold, became map[federation.EventID][]federation.Delivered) error {
	for _, to := range slices.Sorted(maps.Keys(held)) {
		if held[to].HeldSince.IsZero() {
			continue // the mode of a home, which is a link
		}
		which := federation.WaitingFilter{Link: to, Handoff: id}
		if kind, _ := federation.KindOf(to); kind == federation.ToLink {
			if p, known := o.peer(to); !known || p.PeerHome != nil {
				continue // the deliveries of a link are listed already
			}
			which.Link, which.Peer = "", to
		}
		waiting, _, err := o.deps.Record.WaitingFor(ctx, which, "", MaxLimit)
		if err != nil {
			return err
		}
		for _, w := range waiting {
			all := became[w.Event]
			i := slices.IndexFunc(all, func(d federation.Delivered) bool {
				return which.Peer == "" && d.Link == federation.WebhookLink && d.State == federation.DeliveryWaiting && d.Queue == ""
			})
			if i < 0 {
				all, i = append(all, federation.Delivered{
					Event: w.Event, Link: to, Participant: to, State: federation.DeliveryWaiting, Attempt: w.Attempt, Next: w.Next, Reason: w.Reason,
				}), len(all)
			}
			all[i].Queue = to
			became[w.Event] = all
		}
	}
	return nil
}

// addressee returns the recipient of a step on a link: an agent, its channel, or for a private
// handoff the other parties, by their names there.
func (o *Operator) addressee(ctx context.Context, d federation.Delivered, view federation.View, ev federation.Event) string {
	switch {
	case d.Link == federation.WebhookLink || d.Link == federation.InboxLink:
		return o.deps.Gateway.Name(ctx, federation.DID(d.Participant))
	case d.Participant != "":
		return d.Participant
	case !federation.Private(view.Venue):
		return view.Venue
	}
	var names []string
	for _, did := range view.Others(ev.Actor()) {
		names = append(names, o.deps.Gateway.Name(ctx, did))
	}
	return strings.Join(names, ",")
}

func (o *Operator) find(ctx context.Context, text string) (federation.View, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		if id, err = o.findSuffix(ctx, strings.ToUpper(text)); err != nil {
			return federation.View{}, err
		}
	}
	view, err := o.deps.Gateway.View(ctx, id)
	if err != nil {
		return federation.View{}, fmt.Errorf("read handoff %s: %w", id, err)
	}
	if !view.Exists() {
		return federation.View{}, errNone("handoff " + text)
	}
	return view, nil
}

func (o *Operator) findSuffix(ctx context.Context, suffix string) (federation.HandoffID, error) {
	if len(suffix) < federation.MinSuffix {
		return federation.HandoffID{}, usage(fmt.Sprintf("an id is a ULID, or its last %d characters or more", federation.MinSuffix))
	}
	found, err := o.deps.Record.Find(ctx, suffix)
	switch {
	case err != nil:
		return federation.HandoffID{}, fmt.Errorf("find handoff: %w", err)
	case len(found) == 0:
		return federation.HandoffID{}, errNone("handoff …" + suffix)
	case len(found) > 1:
		return federation.HandoffID{}, usage(fmt.Sprintf("…%s may be %s or %s", suffix, found[0], found[1]))
	}
	return found[0], nil
}

func (o *Operator) endOrphan(ctx context.Context, in ActOnID) (Handoff, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Handoff{}, err
	}
	if ask.Reason == "" {
		return Handoff{}, usage("reason is required: the parties can read it")
	}
	view, err := o.find(ctx, in.ID)
	if err != nil {
		return Handoff{}, err
	}
	if o.whyOrphaned(view, time.Now()) == "" {
		return Handoff{}, &ProblemError{Status: http.StatusConflict, Code: CodeFailed, Detail: "handoff " + view.ID.String() + " is not orphaned: its home " + string(view.Home) + " orders it"}
	}
	if ask.DryRun {
		return o.shapeHandoff(view, time.Now()), nil
	}
	if view, err = o.deps.Gateway.EndOrphan(ctx, view.ID, ask.Reason); err != nil {
		return Handoff{}, err
	}
	o.act(ctx, "handoff orphan end", view.ID.String(), ask.Reason)
	return o.shapeHandoff(view, time.Now()), nil
}

func (o *Operator) messages(ctx context.Context, id federation.HandoffID) ([]Message, error) {
	found, err := o.deps.Gateway.About(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	var shown []Message
	for _, t := range found {
		shown = append(shown, Message{
			ID: t.ID, From: t.Author, To: t.To, Name: o.deps.Gateway.Name(ctx, t.Author), Link: t.Arrival.Link,
			Time: Moment(t.Arrival.Received), Text: t.Body,
		})
	}
	return shown, nil
}

func (o *Operator) shapeHandoff(v federation.View, now time.Time) Handoff {
	caps := v.Caps
	if caps == nil {
		caps = []string{}
	}
	why := o.whyOrphaned(v, now)
	return Handoff{
		ID: v.ID, Kind: v.Kind, State: v.State, Version: v.Version, Home: v.Home, Venue: v.Venue, Dialect: v.Dialect,
		Offerer: v.Offerer, Offeree: v.Offeree, Assignee: v.Assignee, Title: v.Title, Deadline: Moment(v.Deadline), Caps: caps,
		Opened: Moment(v.Opened), Moved: Moment(v.Moved), Erased: Moment(v.Erased), Orphaned: why != "", OrphanReason: why,
	}
}

func shapeStep(e federation.Entry, name string) Step {
	ev := e.Event
	s := Step{
		EventID: ev.ID, Verb: ev.Verb, From: ev.From, Name: name, Network: ev.Arrival.Network, Link: ev.Arrival.Link,
		Time: Moment(ev.Time()), Filed: Moment(e.Filed), Provenance: ev.Provenance,
		Verdict: ev.FiledVerdict().String(), Erased: ev.Erased != nil,
		Scheme: ev.Dialect, KeyID: ev.Signature.KeyID, Note: ev.Note, Delivered: []Delivery{},
	}
	if actor := ev.Actor(); actor != ev.From {
		s.For = actor
	}
	if ev.Evidence != nil {
		s.Evidence = &Evidence{URL: ev.Evidence.URL, SHA256: hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	return s
}

func shapeBinding(b federation.BoundName, origin string) Binding {
	return Binding{Network: b.Network, Name: b.Name, DID: b.DID, Vouch: b.Vouch, Origin: origin, Since: Moment(b.Since)}
}
