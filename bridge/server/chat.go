package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// chatKey is the name of the key that signs all channel text. With more than one key, the record
// could contain duplicates of an ID.
const chatKey = "chat"

// Outcomes of a channel line, as metric labels.
const (
	chatRelayed   = "relayed"
	chatDuplicate = "duplicate"
	chatRefused   = "refused"
	chatFull      = "full" // no space in the queue of a link
)

// fullQueues is the set of full chat queues, by link and order. Its size is bounded by the pairs of
// relayed channels.
type fullQueues struct{ m sync.Map }

// record stores whether a queue is full, and reports whether it just became full.
func (f *fullQueues) record(link string, order federation.HandoffID, full bool) bool {
	key := link + " " + order.String()
	if !full {
		f.m.Delete(key)
		return false
	}
	_, was := f.m.LoadOrStore(key, true)
	return !was
}

// maxTyped is more than two networks send during the delay of one notification.
const maxTyped = 1024

type typed struct {
	mu  sync.Mutex
	ids irc.Recent
}

func (t *typed) add(messageID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids.Add(federation.ChatID(messageID).String())
}

// Relay implements [bridge.Messages].
func (g *Gateway) Relay(ctx context.Context, line federation.Text, original signing.Original) error {
	leave, err := g.links.acquire(ctx, line.Arrival.Link)
	if err != nil {
		return err
	}
	defer leave()
	line.Order = federation.ChatOrder(line.Arrival.Link, line.Venue)
	if err := g.refuseAuthor(ctx, line); err != nil {
		if _, refused := errors.AsType[*federation.RefusalError](err); refused {
			g.noteChat(ctx, line, chatRefused, err)
		}
		return err
	}
	to, full, err := g.relays(ctx, line)
	if err != nil {
		return err
	}
	if len(to) > 0 {
		outcome, err := g.fileChat(ctx, line, original, to)
		if err != nil {
			return err
		}
		g.noteChat(ctx, line, outcome, nil)
	}
	return full
}

// relays returns the destination links of a channel line, and the refusal by the first link
// whose queue just became full.
func (g *Gateway) relays(ctx context.Context, line federation.Text) (to []string, full, err error) {
	most := g.home.Load().Limits.Inbox.Events
	for link := range able[bridge.Relayer](g.links) {
		name := link.Name()
		if name == line.Arrival.Link || !slices.Contains(link.Relays(), line.Venue) {
			continue
		}
		has, err := g.deps.Record.HasSpace(ctx, name, line.Order, most)
		switch {
		case err != nil:
			return nil, nil, err
		case has:
			g.full.record(name, line.Order, false)
			to = append(to, name)
			continue
		}
		var why error // only once, until there is space again
		if g.full.record(name, line.Order, true) {
			why = line.Refuse(federation.InboxFull, fmt.Sprintf("%d lines wait for link %s, which takes no more until it is up", most, name))
			full = why
		}
		g.noteChat(ctx, line, chatFull, why)
	}
	return to, full, nil
}

// A known ID means that the line returned over another gateway, or that a link read it again.
func (g *Gateway) fileChat(ctx context.Context, line federation.Text, original signing.Original, to []string) (outcome string, err error) {
	if line, err = g.sealText(ctx, line, g.deps.Kept(chatKey), original); err != nil {
		return "", err
	}
	_, known, err := g.deps.Record.FileText(ctx, federation.TextFiling{Fanout: federation.Fanout{Links: to}, Text: line, Filed: time.Now()})
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
		g.deps.PubSub.Wake(bridge.OutboxTopic(link))
	}
	return chatRelayed, nil
}

// noteChat logs only refused lines, to keep conversations out of the log.
func (g *Gateway) noteChat(ctx context.Context, line federation.Text, outcome string, err error) {
	g.deps.Metrics.Chat.WithLabelValues(line.Arrival.Network, line.Arrival.Link, outcome).Inc()
	if err == nil {
		return
	}
	g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "line of a channel is not relayed", append(stepAttrs(line.Row()),
		slog.String("channel", line.Venue), slog.String("outcome", outcome), slog.String("reason", err.Error()))...)
}
