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

// ListFeeds implements [contract.StrictServerInterface].
func (o *Operator) ListFeeds(ctx context.Context, req contract.ListFeedsRequestObject) (contract.ListFeedsResponseObject, error) {
	l, err := o.feeds(ctx, req.Params)
	p := req.Params
	return o.list(ctx, l, err, p.Limit, p.Cursor, p.Watch)
}

// feeds returns the list of pending deliveries.
func (o *Operator) feeds(ctx context.Context, query contract.ListFeedsParams) (listing, error) {
	f, err := o.waitingFilter(ctx, query)
	if err != nil {
		return listing{}, err
	}
	page := func(ctx context.Context, cursor string, limit int) (any, error) {
		held, err := o.held(ctx)
		if err != nil {
			return nil, err
		}
		found, next, err := o.deps.Feeds.WaitingFor(ctx, f, federation.Cursor(cursor), limit)
		items := []Waiting{}
		for _, w := range found {
			items = append(items, shapeWaiting(w, held))
		}
		return Page[Waiting]{Items: items, NextCursor: string(next)}, err
	}
	return listing{page, watchPage(page, func(w Waiting) Waiting { return w })}, nil
}

// watchPage makes the first page of a list one that can be watched: what it tells is
// what was not there before, as it was.
func watchPage[T any](page func(context.Context, string, int) (any, error), key func(T) T) func(context.Context, string, int) func() ([]any, error) {
	return func(ctx context.Context, cursor string, limit int) func() ([]any, error) {
		told := map[string]bool{}
		return func() ([]any, error) {
			found, err := page(ctx, cursor, limit)
			if err != nil {
				return nil, err
			}
			now, items := map[string]bool{}, []any{}
			listed, _ := found.(Page[T])
			for _, item := range listed.Items {
				text := fmt.Sprintf("%+v", key(item))
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
func (o *Operator) waitingFilter(ctx context.Context, query contract.ListFeedsParams) (f federation.WaitingFilter, err error) {
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
	if all := o.deps.Peers.Peers(); f.Link == "" && slices.ContainsFunc(all, isHome) && !slices.ContainsFunc(all, isRegistry) {
		f.Link, f.Peer = f.Peer, ""
	}
	return f
}

// held returns what operators hold, by name.
func (o *Operator) held(ctx context.Context) (map[string]federation.Withheld, error) {
	all, err := o.deps.Feeds.Holds(ctx)
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

// ListFeedShapes implements [contract.StrictServerInterface].
func (o *Operator) ListFeedShapes(ctx context.Context, req contract.ListFeedShapesRequestObject) (contract.ListFeedShapesResponseObject, error) {
	p := req.Params
	return o.list(ctx, o.shapes(), nil, p.Limit, p.Cursor, nil)
}

// shapes returns a row for each destination with pending deliveries or a hold. It has no second
// page.
func (o *Operator) shapes() listing {
	page := func(ctx context.Context, _ string, _ int) (any, error) {
		held, err := o.held(ctx)
		if err != nil {
			return nil, err
		}
		all, err := o.deps.Feeds.Shapes(ctx, time.Now())
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
	return listing{page: page}
}

// ChangeFeed implements [contract.StrictServerInterface]. It holds or releases
// a destination, or settles the pending deliveries of an event or a message.
func (o *Operator) ChangeFeed(ctx context.Context, req contract.ChangeFeedRequestObject) (contract.ChangeFeedResponseObject, error) {
	id, verb := req.ID, req.Verb
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask := *req.Body
	var changed int
	var err error
	switch verb {
	case "hold":
		changed, err = 1, o.hold(ctx, id, ask)
	case "release":
		changed, err = 1, o.release(ctx, id, ask)
	case "retry", "fail", "drop":
		f := o.towards(req.Params.Link, req.Params.Peer)
		f.ID = id
		changed, err = o.settle(ctx, f, verb, ask)
	default:
		err = errNone("verb " + verb + " of feeds")
	}
	if err != nil {
		return nil, err
	}
	return contract.ChangeFeed200JSONResponse(o.acted(ctx, "feed "+verb, id, ask, changed)), nil
}

// hold keeps everything back from a destination.
func (o *Operator) hold(ctx context.Context, to string, ask Act) error {
	if !o.destination(to) {
		return errNone("link or registry " + to)
	}
	if ask.DryRun {
		return nil
	}
	return o.deps.Feeds.Hold(ctx, federation.Withheld{To: to, Since: time.Now(), Reason: ask.Reason})
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
	err := o.deps.Feeds.Release(ctx, to)
	if isNotFound(err) {
		return errNone("hold of " + to)
	}
	o.wake(to)
	return err
}

// settle has what waits tried now, or given up.
func (o *Operator) settle(ctx context.Context, f federation.WaitingFilter, verb string, ask Act) (changed int, err error) {
	waiting, _, err := o.deps.Feeds.WaitingFor(ctx, f, "", MaxLimit)
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
		changed, err = o.deps.Feeds.Retry(ctx, f, time.Now())
	default:
		changed, err = o.deps.Feeds.GiveUp(ctx, f, verb == "drop", ask.Reason, time.Now())
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
