package main

import (
	"context"
	"log/slog"
	"time"

	"baton/bridge"
	"baton/federation"
)

// noticeEvery is how often it is looked who is to be told something: none of it is
// due to the second.
const noticeEvery = time.Second

// noticePage bounds how many of one link are told at once.
const noticePage = 64

// absentWait is how long to wait for a signer who is not there, before it is looked for
// again.
const absentWait = time.Minute

// tellSigners tells signers what became of their steps, and owners of webhooks that those
// are disabled, until ctx ends.
func (p *program) tellSigners(ctx context.Context) {
	tick := time.NewTicker(noticeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := p.gateway.TellSigners(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelError, "notices not told", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// TellSigners has each link that is up tell what is due. Who is not there is looked for
// again later; the error is that of the record.
func (g *submitter) TellSigners(ctx context.Context, now time.Time) error {
	for _, notifier := range g.fleet.Notifiers() {
		due, err := g.record.Untold(ctx, notifier.Name(), now, noticePage)
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

// noticeAttrs says in the log what a notice is about.
func noticeAttrs(n federation.Notice) []slog.Attr {
	if n.Kind == federation.NoticeDisabled {
		return []slog.Attr{slog.String("link", federation.HookName(n.Hook.ID)), slog.String("did", string(n.Hook.DID))}
	}
	return stepAttrs(n.Event)
}

func (g *submitter) tellSigner(ctx context.Context, link bridge.Notifier, n federation.Notice, now time.Time) error {
	if err := link.Notify(ctx, n); err != nil {
		return g.record.TellLater(ctx, n, now.Add(absentWait))
	}
	g.log.LogAttrs(ctx, slog.LevelInfo, "told", append(noticeAttrs(n), slog.String("outcome", string(n.Kind)), slog.String("reason", n.Code))...)
	return g.record.Told(context.WithoutCancel(ctx), n) // also at the end of the gateway: nobody is told twice
}
