package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"baton/bridge"
	"baton/federation"
)

// chatKey is the name of the key that signs channel text. One key signs all text, so that the
// record has each ID once.
const chatKey = "chat"

// Outcomes of a line of a channel, as labels of the counter.
const (
	chatRelayed   = "relayed"
	chatDuplicate = "duplicate"
	chatRefused   = "refused"
	chatFull      = "full" // a link had no space for it
)

// fullQueues is the queues of channel text that have no space, by link and order. There are as
// many as pairs of relayed channels. It may be used concurrently.
type fullQueues struct{ m sync.Map }

// note notes whether a queue is full, and reports whether it is full now and was not before.
func (f *fullQueues) note(link string, order federation.HandoffID, full bool) bool {
	key := link + " " + order.String()
	if !full {
		f.m.Delete(key)
		return false
	}
	_, was := f.m.LoadOrStore(key, true)
	return !was
}

// Relay implements [bridge.Messages].
func (g *Gateway) Relay(ctx context.Context, c bridge.Chat) error {
	leave, err := g.links.enter(ctx, c.Arrival.Link)
	if err != nil {
		return err
	}
	defer leave()
	ev := federation.Event{
		ID: c.ID, Handoff: federation.ChatOrder(c.Arrival.Link, c.Venue), Verb: federation.Message, Kind: federation.Kind(federation.Message),
		For: c.From, Venue: c.Venue, Note: c.Text, ReplyTo: c.About.String(), Provenance: federation.Vouched, Arrival: c.Arrival,
	}
	if c.Manner != "" {
		ev.Fields = map[string]string{federation.Manner: c.Manner}
	}
	if err := g.refuseBlocked(ctx, ev); err != nil {
		if _, refused := errors.AsType[*federation.RefusalError](err); refused {
			g.noteChat(ctx, ev, chatRefused, err)
		}
		return withoutHandoff(err)
	}
	to, full, err := g.relays(ctx, ev)
	if err != nil {
		return err
	}
	if len(to) > 0 {
		outcome, err := g.fileChat(ctx, ev, c, to)
		if err != nil {
			return err
		}
		g.noteChat(ctx, ev, outcome, nil)
	}
	return withoutHandoff(full)
}

// relays returns the links that a line of a channel goes to. The second result is the refusal
// by the first of the links that has just run out of space.
func (g *Gateway) relays(ctx context.Context, ev federation.Event) (to []string, full, err error) {
	most := g.home.Load().Limits.Inbox.Events
	for link := range able[bridge.Relayer](g.links) {
		name := link.Name()
		if name == ev.Arrival.Link || !slices.Contains(link.Relays(), ev.Venue) {
			continue
		}
		has, err := g.deps.Record.HasSpace(ctx, name, ev.Handoff, most)
		switch {
		case err != nil:
			return nil, nil, err
		case has:
			g.full.note(name, ev.Handoff, false)
			to = append(to, name)
			continue
		}
		var why error // told once, until there is space again
		if g.full.note(name, ev.Handoff, true) {
			why = federation.Refuse(ev, federation.InboxFull, fmt.Sprintf("%d lines wait for link %s, which takes no more until it is up", most, name))
			full = why
		}
		g.noteChat(ctx, ev, chatFull, why)
	}
	return to, full, nil
}

// fileChat files a line for some links, and returns what came of it. A known ID is a line that
// returned over another gateway, or that a link brought again.
func (g *Gateway) fileChat(ctx context.Context, ev federation.Event, c bridge.Chat, to []string) (outcome string, err error) {
	if ev, err = g.sealMessage(ctx, ev, g.deps.Kept(chatKey), c.Original); err != nil {
		return "", err
	}
	f := federation.MessageFiling{Filing: federation.Filing{Event: ev, View: federation.MessageView(ev), Filed: time.Now()}}
	f.Links = to
	_, known, err := g.deps.Record.FileMessage(ctx, f)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok && refused.Code == federation.EventIDInUse {
		known, err = true, nil
	}
	switch {
	case err != nil:
		return "", err
	case known:
		return chatDuplicate, nil
	}
	for _, link := range to {
		g.deps.Wakes.Wake(bridge.OutboxTopic(link))
	}
	return chatRelayed, nil
}

// noteChat counts a line of a channel, and logs a refused one. A log of all lines would be a log
// of what people say.
func (g *Gateway) noteChat(ctx context.Context, ev federation.Event, outcome string, err error) {
	g.deps.Metrics.Chat.WithLabelValues(ev.Arrival.Network, ev.Arrival.Link, outcome).Inc()
	if err == nil {
		return
	}
	g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "line of a channel is not relayed", append(stepAttrs(ev),
		slog.String("channel", ev.Venue), slog.String("outcome", outcome), slog.String("reason", err.Error()))...)
}

// withoutHandoff returns an error about text, which is in no handoff.
func withoutHandoff(err error) error {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		refused.Handoff = federation.HandoffID{}
	}
	return err
}
