package gateway

import (
	"context"
	"log/slog"
	"time"

	"baton/bridge"
	"baton/federation"
)

// noticeEvery is how often notices are looked for that are due: none is due to the second.
const noticeEvery = time.Second

// noticePage bounds how many notices of one link are told at once.
const noticePage = 64

// absentWait is how long a notice is put off whose reader is not there.
const absentWait = time.Minute

// tellSigners tells signers what became of their steps, and owners of webhooks that those
// are disabled, until ctx ends.
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

// tellDue has each link that is up tell the notices that are due. A notice to a reader that is
// not there is put off; the error is that of the record.
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

// noticeLink returns the link under which the record files the notices that a link tells, see
// [federation.Notice.Link].
func noticeLink(n bridge.Notifier) string {
	if _, ok := n.(bridge.InboxReader); ok {
		return federation.InboxLink
	}
	return n.Name()
}

// noticeAttrs returns what a log line says about a notice.
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
	return g.deps.Notices.Told(context.WithoutCancel(ctx), n) // also when the gateway ends: no reader is told twice
}
