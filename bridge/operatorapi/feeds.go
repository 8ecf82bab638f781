package operatorapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Waiting is a delivery that is still to be made.
type Waiting struct {
	ID        string               `json:"id"` // of the event; of a message that is no step its own
	Link      string               `json:"link,omitempty"`
	Peer      string               `json:"peer,omitempty"` // another registry
	HandoffID federation.HandoffID `json:"handoff_id,omitzero"`
	Verb      federation.Verb      `json:"verb,omitempty"`
	Queued    Moment               `json:"queued"`
	Attempt   int                  `json:"attempt"`
	Next      Moment               `json:"next,omitzero"` // not there of one that is tried at once, or waits behind another
	Behind    bool                 `json:"behind"`        // another one of its handoff goes first
	LastError string               `json:"last_error"`
	Held      bool                 `json:"held"` // an operator holds its destination
}

// Shape is how much waits for one destination, by age.
type Shape struct {
	Link   string `json:"link,omitempty"`
	Peer   string `json:"peer,omitempty"`
	Rows   int    `json:"rows"`
	Ages   []int  `json:"ages"` // younger than 1m, 5m, 1h, 24h, and older
	Oldest Moment `json:"oldest,omitzero"`
	Held   bool   `json:"held"`
	Reason string `json:"reason,omitempty"` // why it is held
}

// Act is what the body of every change may have, and all that most of them have.
type Act struct {
	Reason string `json:"reason,omitempty"`
	// DryRun asks what would be answered, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// Acted is how many things a change was made to, or with DryRun would be.
type Acted struct {
	Changed int  `json:"changed"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// feeds is GET feeds.
func (o *Operator) feeds(r *http.Request) (listing, error) {
	query := r.URL.Query()
	if err := known(query, "link", "peer", "handoff", "older"); err != nil {
		return listing{}, err
	}
	f, err := o.waitingFilter(r.Context(), query)
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
func (o *Operator) waitingFilter(ctx context.Context, query url.Values) (f federation.WaitingFilter, err error) {
	f = o.towards(query)
	if text := query.Get("older"); text != "" {
		age, err := time.ParseDuration(text)
		if err != nil || age < 0 {
			return f, usage("older: want a duration, such as 1h")
		}
		f.Before = time.Now().Add(-age)
	}
	if text := query.Get("handoff"); text != "" {
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
func (o *Operator) towards(query url.Values) federation.WaitingFilter {
	f := federation.WaitingFilter{Link: query.Get("link"), Peer: query.Get("peer")}
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

// shapes is GET feeds/shape: there are as many as there are destinations, and no second
// page. What is held is among them, with nothing waiting too.
func (o *Operator) shapes(r *http.Request) (listing, error) {
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
	return listing{page: page}, known(r.URL.Query())
}

// postFeed answers POST feeds/{id}/{verb}: hold and release of a destination; retry,
// fail and drop of what waits, by the id of an event or of a message.
func (o *Operator) postFeed(r *http.Request) (answer, error) {
	id, verb := r.PathValue("id"), r.PathValue("verb")
	if err := known(r.URL.Query(), "link", "peer"); err != nil {
		return answer{}, err
	}
	var ask Act
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	var changed int
	var err error
	switch verb {
	case "hold":
		changed, err = 1, o.hold(r.Context(), id, ask)
	case "release":
		changed, err = 1, o.release(r.Context(), id, ask)
	case "retry", "fail", "drop":
		f := o.towards(r.URL.Query())
		f.ID = id
		changed, err = o.settle(r.Context(), f, verb, ask)
	default:
		err = errNone("verb " + verb + " of feeds")
	}
	if err != nil {
		return answer{}, err
	}
	return o.acted(r, "feed "+verb, id, ask, changed), nil
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

// wake wakes whoever delivers to a link or a registry.
func (o *Operator) wake(to string) {
	if strings.HasPrefix(to, federation.HookLink+"/") {
		o.deps.Wakes.Wake(bridge.HooksTopic)
		return
	}
	if o.linked(to) {
		o.deps.Wakes.Wake(bridge.FeedTopic(to))
		return
	}
	o.deps.Wakes.Wake(bridge.RelayTopic)
}
