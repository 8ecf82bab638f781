package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

func (o *Operator) feeds(ctx context.Context, query FeedQuery) (listing[Waiting], error) {
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
			_, isHeld := held[w.To()]
			id := w.Event.String()
			if w.Event.IsZero() {
				id = w.Message
			}
			items = append(items, Waiting{
				ID: id, Link: w.Link, Peer: w.Peer, HandoffID: w.Handoff, Verb: w.Verb, Queued: Moment(w.Queued), Attempt: w.Attempt,
				Next: Moment(w.Next), Behind: w.Behind, LastError: w.Reason, Held: isHeld,
			})
		}
		return Page[Waiting]{Items: items, NextCursor: string(next)}, err
	}
	return listing[Waiting]{page, watchPage(page)}, nil
}

func watchPage[T any](page func(context.Context, string, int) (Page[T], error)) func(context.Context, string, int) func() ([]T, error) {
	return func(ctx context.Context, cursor string, limit int) func() ([]T, error) {
		reported := map[string]bool{}
		return func() ([]T, error) {
			found, err := page(ctx, cursor, limit)
			if err != nil {
				return nil, err
			}
			now, items := map[string]bool{}, []T{}
			for _, item := range found.Items {
				text := fmt.Sprintf("%+v", item)
				now[text] = true
				if !reported[text] {
					items = append(items, item)
				}
			}
			reported = now
			return items, nil
		}
	}
}

func (o *Operator) waitingFilter(ctx context.Context, query FeedQuery) (f federation.WaitingFilter, err error) {
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

// Deliveries to another home wait in the outbox of a link, so either name may be used. A registry
// of the same name is a peer.
func (o *Operator) towards(link, peer string) federation.WaitingFilter {
	f := federation.WaitingFilter{Link: link, Peer: peer}
	isHome := func(p Peer) bool { return p.Name == f.Peer && p.PeerHome != nil }
	isRegistry := func(p Peer) bool { return p.Name == f.Peer && p.PeerHome == nil }
	if all := o.deps.Server.Peers(); f.Link == "" && slices.ContainsFunc(all, isHome) && !slices.ContainsFunc(all, isRegistry) {
		f.Link, f.Peer = f.Peer, ""
	}
	return f
}

func (o *Operator) held(ctx context.Context) (map[string]Hold, error) {
	all, err := o.deps.Record.Holds(ctx)
	held := map[string]Hold{}
	for _, h := range all {
		held[h.To] = Hold{HeldSince: Moment(h.Since), HoldReason: h.Reason}
	}
	return held, err
}

func (o *Operator) holds(ctx context.Context) (map[string]Hold, error) {
	held, err := o.held(ctx)
	for _, p := range o.deps.Server.Peers() {
		if p.PeerHome != nil && p.Mode == "hold" {
			hold := held[p.Name]
			hold.PeerMode = p.Mode
			held[p.Name] = hold
		}
	}
	return held, err
}

func (o *Operator) shapes(context.Context, Paging) (listing[Shape], error) {
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
				Link: s.Link, Peer: s.Peer, Rows: s.Rows, Ages: s.Ages[:], Oldest: Moment(s.Oldest), Held: isHeld, Reason: hold.HoldReason, Since: hold.HeldSince,
			})
		}
		for _, to := range slices.Sorted(maps.Keys(held)) {
			empty := Shape{Ages: make([]int, len(federation.Shape{}.Ages)), Held: true, Reason: held[to].HoldReason, Since: held[to].HeldSince}
			if kind, _ := federation.KindOf(to); o.linked(to) || kind != federation.ToLink {
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

const everyID = "all"

func (o *Operator) changeFeed(ctx context.Context, in FeedChange) (Acted, error) {
	id, verb, subject := in.ID, in.Verb, in.ID
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
		var f federation.WaitingFilter
		if f, err = o.waitingFilter(ctx, FeedQuery{Link: in.Link, Peer: in.Peer, Older: in.Older}); err != nil {
			return Acted{}, err
		}
		switch {
		case id != everyID && in.Older != "":
			return Acted{}, usage("older: want the ID " + everyID)
		case id != everyID:
			f.ID = id
		case f.Link == "" && f.Peer == "" && in.Older == "":
			return Acted{}, usage("link, peer or older: want one with the ID " + everyID)
		default:
			subject = everyID
			if to := cmp.Or(f.Link, f.Peer); to != "" {
				subject += " to " + to
			}
			if in.Older != "" {
				subject += " older than " + in.Older
			}
		}
		changed, err = o.settle(ctx, f, verb, ask)
	default:
		err = errNone("verb " + verb + " of feeds")
	}
	if err != nil {
		return Acted{}, err
	}
	return o.acted(ctx, "feed "+verb, subject, ask, changed), nil
}

func (o *Operator) hold(ctx context.Context, to string, ask Act) error {
	if known, err := o.destination(ctx, to); err != nil || !known {
		return cmp.Or(err, errNone("link or registry "+to))
	}
	if ask.DryRun {
		return nil
	}
	return o.deps.Record.Hold(ctx, federation.PausedQueue{To: to, Since: time.Now(), Reason: ask.Reason})
}

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

func (o *Operator) settle(ctx context.Context, f federation.WaitingFilter, verb string, ask Act) (changed int, err error) {
	destinations := map[string]bool{}
	waiting := 0
	for after := federation.Cursor(""); waiting == 0 || after != ""; {
		var page []federation.Waiting
		if page, after, err = o.deps.Record.WaitingFor(ctx, f, after, MaxLimit); err != nil {
			return 0, err
		}
		if waiting += len(page); waiting == 0 {
			none := "pending delivery"
			if f.ID != "" {
				none += " of " + f.ID
			}
			if to := cmp.Or(f.Link, f.Peer); to != "" {
				none += " to " + to
			}
			return 0, errNone(none)
		}
		for _, w := range page {
			destinations[w.To()] = true
		}
	}
	switch {
	case ask.DryRun:
		return waiting, nil
	case verb == "retry":
		changed, err = o.deps.Record.Retry(ctx, f, time.Now())
	default:
		changed, err = o.deps.Record.EndWaiting(ctx, f, verb == "drop", ask.Reason, time.Now())
	}
	for to := range destinations {
		o.wake(to)
	}
	return changed, err
}

func (o *Operator) destination(ctx context.Context, name string) (bool, error) {
	switch kind, rest := federation.KindOf(name); kind {
	case federation.ToWebhook:
		id, err := federation.ParseEventID(rest)
		if err != nil {
			return false, nil //nolint:nilerr // no webhook has such a name
		}
		_, err = o.deps.Record.Webhook(ctx, id)
		if isNotFound(err) {
			return false, nil
		}
		return err == nil, err
	case federation.ToReaders:
		return rest == federation.InboxLink || o.linked(rest), nil
	case federation.ToLink, federation.ToPeer:
	}
	_, known := o.peer(name)
	return known || o.linked(name), nil
}

func (o *Operator) wake(to string) {
	switch kind, _ := federation.KindOf(to); {
	case kind == federation.ToWebhook:
		o.deps.PubSub.Wake(bridge.WebhooksTopic)
	case kind == federation.ToReaders, o.linked(to):
		o.deps.PubSub.Wake(bridge.OutboxTopic(to))
	default:
		o.deps.PubSub.Wake(bridge.RelayTopic)
	}
}

func (o *Operator) deadLetters(_ context.Context, query DeadQuery) (listing[DeadLetter], error) {
	f := federation.DeadFilter{Reason: federation.DeadReason(query.Reason), To: query.Peer}
	if err := checkReason("reason", f.Reason); err != nil {
		return listing[DeadLetter]{}, err
	}
	page := func(ctx context.Context, cursor string, limit int) (Page[DeadLetter], error) {
		before, err := parseNumber("cursor", cursor)
		if err != nil {
			return Page[DeadLetter]{}, err
		}
		found, err := o.deps.Record.DeadLetters(ctx, f, before, limit)
		p := Page[DeadLetter]{Items: []DeadLetter{}}
		for _, d := range found {
			p.Items = append(p.Items, shapeDead(d))
		}
		if len(found) == limit {
			p.NextCursor = strconv.FormatInt(found[limit-1].ID, 10)
		}
		return p, err
	}
	return listing[DeadLetter]{page, watchPage(page)}, nil
}

func checkReason(name string, reason federation.DeadReason) error {
	if reason != "" && !slices.Contains(federation.DeadReasons(), reason) {
		return usage(fmt.Sprintf("%s: want one of %v", name, federation.DeadReasons()))
	}
	return nil
}

func parseNumber(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, usage(name + ": want a number")
	}
	return n, nil
}

func shapeDead(d federation.DeadLetter) DeadLetter {
	shaped := DeadLetter{
		ID: d.ID, Link: d.To, Reason: d.Reason, LastError: d.Why, EventID: d.Event, HandoffID: d.Handoff, Verb: d.Verb, Message: d.Message,
		Attempt: d.Attempt, Queued: Moment(d.Queued), Died: Moment(d.Died), Replayed: Moment(d.Replayed),
	}
	if d.ToPeer {
		shaped.Link, shaped.Peer = "", d.To
	}
	return shaped
}

func (o *Operator) getDead(ctx context.Context, in ByID) (DeadLetter, error) {
	id, err := parseNumber("id", in.ID)
	if err != nil {
		return DeadLetter{}, err
	}
	d, err := o.dead(ctx, id)
	if err != nil {
		return DeadLetter{}, err
	}
	shaped := shapeDead(d)
	shaped.DeadDetail = &DeadDetail{
		Verdict: federation.Valid.String(), // nothing else is filed
		Raw:     printable(d.Raw), Signature: d.Signature, Attempts: []Attempt{}, Fix: d.Reason.Fix(), Broken: d.Broken,
	}
	if d.Broken != "" {
		shaped.Verdict = ""
	}
	for _, t := range d.Tries {
		shaped.Attempts = append(shaped.Attempts, Attempt{Number: t.Number, Time: Moment(t.At), Error: t.Reason})
	}
	return shaped, nil
}

// The ID "all" stands for every dead letter of a cause.
func (o *Operator) settleDead(ctx context.Context, in DeadChange) (Acted, error) {
	text, verb := in.ID, in.Verb
	act := map[string]func(ctx context.Context, id int64, dry bool) (bool, error){"replay": o.replay, "drop": o.dropDead}[verb]
	if act == nil {
		return Acted{}, errNone("verb " + verb + " of dead letters")
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	cause := federation.DeadReason(in.Cause)
	if (cause != "" || in.Peer != "") && text != everyID {
		return Acted{}, usage("cause and peer: want the ID " + everyID)
	}
	if err := checkReason("cause", cause); err != nil {
		return Acted{}, err
	}
	ids, err := o.deadIDs(ctx, text, federation.DeadFilter{Reason: cause, To: in.Peer})
	if err != nil {
		return Acted{}, err
	}
	subject := text
	if cause != "" {
		subject += " " + in.Cause
	}
	if in.Peer != "" {
		subject += " to " + in.Peer
	}
	changed := 0
	for _, id := range ids {
		did, err := act(ctx, id, ask.DryRun)
		if _, isProblem := errors.AsType[*ProblemError](err); isProblem && text == everyID {
			continue // it was deleted meanwhile or cannot be replayed; the others can
		}
		if err != nil && changed > 0 {
			_ = o.acted(ctx, "dead "+verb, subject, ask, changed)
		}
		if err != nil {
			return Acted{}, err
		}
		if did {
			changed++
		}
	}
	return o.acted(ctx, "dead "+verb, subject, ask, changed), nil
}

func (o *Operator) deadIDs(ctx context.Context, text string, which federation.DeadFilter) ([]int64, error) {
	if text != everyID {
		id, err := parseNumber("id", text)
		return []int64{id}, err
	}
	var ids []int64
	for before := int64(0); ; {
		page, err := o.deps.Record.DeadLetters(ctx, which, before, MaxLimit)
		if err != nil || len(page) == 0 {
			return ids, err
		}
		for _, d := range page {
			ids = append(ids, d.ID)
		}
		before = page[len(page)-1].ID
	}
}

func (o *Operator) dead(ctx context.Context, id int64) (federation.DeadLetter, error) {
	d, err := o.deps.Record.DeadLetter(ctx, id)
	if isNotFound(err) {
		err = errNone("dead letter " + strconv.FormatInt(id, 10))
	}
	return d, err
}

// replay returns false if the dead letter was already requeued.
func (o *Operator) replay(ctx context.Context, id int64, dry bool) (bool, error) {
	d, err := o.dead(ctx, id)
	switch {
	case err != nil:
		return false, err
	case d.Broken != "":
		return false, conflict(fmt.Sprintf("dead letter %d cannot be read: %s", id, d.Broken))
	case dry:
		return d.Replayed.IsZero(), nil
	}
	revived, err := o.deps.Record.Revive(ctx, id, time.Now())
	if revived {
		o.wake(d.To)
	}
	return revived, err
}

func (o *Operator) dropDead(ctx context.Context, id int64, dry bool) (bool, error) {
	if _, err := o.dead(ctx, id); err != nil || dry {
		return err == nil, err
	}
	err := o.deps.Record.Discard(ctx, id, time.Now())
	if isNotFound(err) {
		return false, nil // another operator discarded it
	}
	return err == nil, err
}

func printable(raw []byte) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(raw)
}
