package server

import (
	"context"
	"log/slog"
	"time"

	"baton/bridge"
	"baton/federation"
)

// noticeEvery is the interval of looks for due notices.
const noticeEvery = time.Second

// noticePage bounds how many notices of one link are read at once.
const noticePage = 64

// absentWait is how long a notice is put off whose reader is not online.
const absentWait = time.Minute

// tellSigners delivers notices until ctx ends: to signers about their steps, and to owners of disabled
// webhooks.
func (g *Gateway) tellSigners(ctx context.Context) {
	tick := time.NewTicker(noticeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := g.tellDue(ctx, time.Now()); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "notices not told", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// tellDue has each link that is up deliver its due notices. It puts off a notice whose reader is not
// online. The error is that of the record.
func (g *Gateway) tellDue(ctx context.Context, now time.Time) error {
	for _, notifier := range g.links.notifiers() {
		due, err := g.deps.Notices.Untold(ctx, noticeLink(notifier), now, noticePage)
		if err != nil {
			return err
		}
		for _, n := range due {
			if err := g.tellSigner(ctx, notifier, n, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// noticeLink returns the link under which the record files the notices of a link; see
// [federation.Notice.Link].
func noticeLink(n bridge.Notifier) string {
	if _, ok := n.(bridge.InboxReader); ok {
		return federation.InboxLink
	}
	return n.Name()
}

// noticeAttrs returns the attributes of a log line about a notice.
func noticeAttrs(n federation.Notice) []slog.Attr {
	if n.Kind == federation.NoticeDisabled {
		return []slog.Attr{slog.String("link", federation.WebhookName(n.Webhook.ID)), slog.String("did", string(n.Webhook.DID))}
	}
	return stepAttrs(n.Event)
}

func (g *Gateway) tellSigner(ctx context.Context, link bridge.Notifier, n federation.Notice, now time.Time) error {
	if err := link.Notify(ctx, n); err != nil {
		return g.deps.Notices.TellLater(ctx, n, now.Add(absentWait))
	}
	g.deps.Log.LogAttrs(ctx, slog.LevelInfo, "told", append(noticeAttrs(n), slog.String("outcome", string(n.Kind)), slog.String("reason", n.Code))...)
	return g.deps.Notices.Told(context.WithoutCancel(ctx), n) // also while the gateway ends: no reader gets a notice twice
}
