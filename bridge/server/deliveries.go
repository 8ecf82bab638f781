package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
)

func (g *Gateway) checkDeliveries(ctx context.Context) {
	delivery.RunOverdue(ctx, g.deps.Log, g.deps.Clock.Now, g.overdue()...)
}

// CheckDeliveries files notices of delayed deliveries, and abandons expired ones.
func (g *Gateway) CheckDeliveries(ctx context.Context, now time.Time) error {
	return delivery.CheckOverdue(ctx, now, g.overdue()...)
}

func (g *Gateway) overdue() []delivery.Overdue {
	links := func() delivery.Policy {
		policy := delivery.ToLink()
		policy.Expires = g.retention.Load().Undelivered
		return policy
	}
	messages := func() delivery.Policy { return delivery.Policy{Expires: g.retention.Load().Messages} }
	expired := func(text string, state federation.DeliveryState, level slog.Level) func(ctx context.Context, rows int) {
		return func(ctx context.Context, rows int) {
			g.deps.Metrics.Outcomes.WithLabelValues(HomeNetwork, string(state)).Add(float64(rows))
			g.deps.Log.LogAttrs(ctx, level, text, slog.Int("rows", rows), slog.String("reason", string(federation.DeadExpired))) //nolint:sloglint // a literal of the list below
		}
	}
	record := g.deps.Record
	return []delivery.Overdue{
		{Policy: links, Delay: record.Delay, Expire: record.Expire, Expired: expired("overdue deliveries moved to dead letters", federation.DeliveryDead, slog.LevelWarn)},
		{Policy: messages, Expire: record.ExpireMessages, Expired: expired("messages expired", federation.DeliveryExpired, slog.LevelInfo)},
		{Policy: messages, Expire: record.ExpireHeld, Expired: expired("held relays expired", federation.DeliveryExpired, slog.LevelInfo)},
	}
}

const rerouteAgain = 5 * time.Second

const revivePage = 200

func (g *Gateway) reroute(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-g.links.applied:
		case <-retry.C:
		case <-ctx.Done():
			return
		}
		if err := g.rerouteOnce(ctx); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "deliveries not routed again", slog.Any("err", err))
			retry.Reset(rerouteAgain)
		}
	}
}

func (g *Gateway) rerouteOnce(ctx context.Context) error {
	err := g.ReviveBlocked(ctx)
	moved, failed := g.deps.Locator.Reroute(ctx, time.Now())
	if moved > 0 {
		g.links.Routed(ctx, "")
	}
	return errors.Join(err, failed)
}

// ReviveBlocked reschedules deliveries that were abandoned because a home was blocked, if it no
// longer is.
func (g *Gateway) ReviveBlocked(ctx context.Context) error {
	var before int64
	for {
		page, err := g.deps.Record.DeadLetters(ctx, federation.DeadFilter{Reason: federation.DeadBlocked}, before, revivePage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, dead := range page {
			before = dead.ID
			home, linked := g.links.Named(dead.To).(HomeLink)
			if !linked || home.Blocked() {
				continue
			}
			revived, err := g.deps.Record.Revive(ctx, dead.ID, time.Now())
			if err != nil && !errors.Is(err, federation.ErrNotFound) {
				return err
			}
			if revived {
				g.deps.PubSub.Wake(bridge.OutboxTopic(dead.To))
			}
		}
	}
}
