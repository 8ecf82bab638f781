package operatorapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// feeds returns the list of pending deliveries.
func (o *Operator) feeds(ctx context.Context, query contract.FeedQuery) (listing[Waiting], error) {
	f, err := o.waitingFilter(ctx, query)
	if err != nil {
		return listing[Waiting]{}, err
	}
	page := func(ctx context.Context, cursor string, limit int) (Page[Waiting], error) {
		held, err := o.held(ctx)
		if err != nil {
			return Page[Waiting]{}, err
		}
		found, next, err := o.deps.Record.WaitingFor(ctx, f, federation.Cursor(cursor), limit)
		items := []Waiting{}
		for _, w := range found {
			items = append(items, shapeWaiting(w, held))
		}
		return Page[Waiting]{Items: items, NextCursor: string(next)}, err
	}
	return listing[Waiting]{page, watchPage(page)}, nil
}

// watchPage returns the news of a list whose first page is watched: its items that were not there
// before, as they are.
func watchPage[T any](page func(context.Context, string, int) (Page[T], error)) func(context.Context, string, int) func() ([]T, error) {
	return func(ctx context.Context, cursor string, limit int) func() ([]T, error) {
		told := map[string]bool{}
		return func() ([]T, error) {
			found, err := page(ctx, cursor, limit)
			if err != nil {
				return nil, err
			}
			now, items := map[string]bool{}, []T{}
			for _, item := range found.Items {
				text := fmt.Sprintf("%+v", item)
				now[text] = true
				if !told[text] {
					items = append(items, item)
				}
			}
			told = now
			return items, nil
		}
	}
}

// waitingFilter reads which deliveries a request is about.
func (o *Operator) waitingFilter(ctx context.Context, query contract.FeedQuery) (f federation.WaitingFilter, err error) {
	f = o.towards(query.Link, query.Peer)
	if text := query.Older; text != "" {
		age, err := time.ParseDuration(text)
		if err != nil || age < 0 {
			return f, usage("older: want a duration, such as 1h")
		}
		f.Before = time.Now().Add(-age)
	}
	if text := query.Handoff; text != "" {
		view, err := o.find(ctx, text)
		if err != nil {
			return f, err
		}
		f.Handoff = view.ID
	}
	return f, nil
}

// towards reads which destinations a request is about. What another home is owed waits in
// the feed of a link, so it may be called either; a registry of the same name is a peer.
func (o *Operator) towards(link, peer string) federation.WaitingFilter {
	f := federation.WaitingFilter{Link: link, Peer: peer}
	isHome := func(p Peer) bool { return p.Name == f.Peer && p.PeerHome != nil }
	isRegistry := func(p Peer) bool { return p.Name == f.Peer && p.PeerHome == nil }
	if all := o.deps.Server.Peers(); f.Link == "" && slices.ContainsFunc(all, isHome) && !slices.ContainsFunc(all, isRegistry) {
		f.Link, f.Peer = f.Peer, ""
	}
	return f
}

// held returns what operators hold, by name.
func (o *Operator) held(ctx context.Context) (map[string]federation.Withheld, error) {
	all, err := o.deps.Record.Holds(ctx)
	held := map[string]federation.Withheld{}
	for _, h := range all {
		held[h.To] = h
	}
	return held, err
}

func shapeWaiting(w federation.Waiting, held map[string]federation.Withheld) Waiting {
	_, isHeld := held[w.To()]
	id := w.Event.String()
	if w.Event.IsZero() {
		id = w.Message
	}
	return Waiting{
		ID: id, Link: w.Link, Peer: w.Peer, HandoffID: w.Handoff, Verb: w.Verb, Queued: Moment(w.Queued), Attempt: w.Attempt,
		Next: Moment(w.Next), Behind: w.Behind, LastError: w.Reason, Held: isHeld,
	}
}

// shapes returns a row for each destination with pending deliveries or a hold. It has no second
// page.
func (o *Operator) shapes(context.Context, contract.Paging) (listing[Shape], error) {
	page := func(ctx context.Context, _ string, _ int) (Page[Shape], error) {
		held, err := o.held(ctx)
		if err != nil {
			return Page[Shape]{}, err
		}
		all, err := o.deps.Record.Shapes(ctx, time.Now())
		items := []Shape{}
		for _, s := range all {
			hold, isHeld := held[s.Link+s.Peer]
			delete(held, s.Link+s.Peer)
			items = append(items, Shape{
				Link: s.Link, Peer: s.Peer, Rows: s.Rows, Ages: s.Ages[:], Oldest: Moment(s.Oldest), Held: isHeld, Reason: hold.Reason,
			})
		}
		for _, to := range sortedKeys(held) {
			empty := Shape{Ages: make([]int, len(federation.Shape{}.Ages)), Held: true, Reason: held[to].Reason}
			if o.linked(to) {
				empty.Link = to
			} else {
				empty.Peer = to
			}
			items = append(items, empty)
		}
		return Page[Shape]{Items: items}, err
	}
	return listing[Shape]{page: page}, nil
}

// changeFeed holds or releases a destination, or settles the pending deliveries of an event or a message.
func (o *Operator) changeFeed(ctx context.Context, in contract.FeedChange) (Acted, error) {
	id, verb := in.ID, in.Verb
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	var changed int
	switch verb {
	case "hold":
		changed, err = 1, o.hold(ctx, id, ask)
	case "release":
		changed, err = 1, o.release(ctx, id, ask)
	case "retry", "fail", "drop":
		f := o.towards(in.Link, in.Peer)
		f.ID = id
		changed, err = o.settle(ctx, f, verb, ask)
	default:
		err = errNone("verb " + verb + " of feeds")
	}
	if err != nil {
		return Acted{}, err
	}
	return o.acted(ctx, "feed "+verb, id, ask, changed), nil
}

// hold keeps everything back from a destination.
func (o *Operator) hold(ctx context.Context, to string, ask Act) error {
	if !o.destination(to) {
		return errNone("link or registry " + to)
	}
	if ask.DryRun {
		return nil
	}
	return o.deps.Record.Hold(ctx, federation.Withheld{To: to, Since: time.Now(), Reason: ask.Reason})
}

// release ends a hold.
func (o *Operator) release(ctx context.Context, to string, ask Act) error {
	if ask.DryRun {
		held, err := o.held(ctx)
		if _, is := held[to]; err == nil && !is {
			err = errNone("hold of " + to)
		}
		return err
	}
	err := o.deps.Record.Release(ctx, to)
	if isNotFound(err) {
		return errNone("hold of " + to)
	}
	o.wake(to)
	return err
}

// settle has what waits tried now, or given up.
func (o *Operator) settle(ctx context.Context, f federation.WaitingFilter, verb string, ask Act) (changed int, err error) {
	waiting, _, err := o.deps.Record.WaitingFor(ctx, f, "", MaxLimit)
	if err != nil {
		return 0, err
	}
	if len(waiting) == 0 {
		return 0, errNone("delivery of " + f.ID + " that waits")
	}
	switch {
	case ask.DryRun:
		return len(waiting), nil
	case verb == "retry":
		changed, err = o.deps.Record.Retry(ctx, f, time.Now())
	default:
		changed, err = o.deps.Record.GiveUp(ctx, f, verb == "drop", ask.Reason, time.Now())
	}
	for _, w := range waiting {
		o.wake(w.To())
	}
	return changed, err
}

// destination reports whether anything can be delivered to a name.
func (o *Operator) destination(name string) bool {
	if o.linked(name) {
		return true
	}
	_, known := o.peer(name)
	return known
}

// wake wakes the outbox of a link or a registry.
func (o *Operator) wake(to string) {
	if strings.HasPrefix(to, federation.WebhookLink+"/") {
		o.deps.Wakes.Wake(bridge.WebhooksTopic)
		return
	}
	if o.linked(to) {
		o.deps.Wakes.Wake(bridge.OutboxTopic(to))
		return
	}
	o.deps.Wakes.Wake(bridge.RelayTopic)
}
