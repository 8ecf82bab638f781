package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"baton/bridge"
	"baton/federation"
)

// checkEvery is the interval of looks for deliveries that wait too long.
const checkEvery = 5 * time.Second

// checkBatch bounds how many deliveries one write ends: a filing waits for it, for a millisecond.
const checkBatch = 16

// checkDeliveries calls [Gateway.CheckDeliveries] every five seconds, until ctx ends.
func (g *Gateway) checkDeliveries(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := g.CheckDeliveries(ctx, g.deps.Clock.Now()); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "deliveries not looked at", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// CheckDeliveries files notices of delayed deliveries, and gives up the deliveries that waited as long as
// the configuration allows.
func (g *Gateway) CheckDeliveries(ctx context.Context, now time.Time) error {
	_, err := inBatches(checkBatch, func(limit int) (int, error) {
		return g.deps.Record.Delay(ctx, now.Add(-federation.DelayNotice), now, limit)
	})
	if err != nil {
		return err
	}
	if err := g.expireMessages(ctx, now); err != nil {
		return err
	}
	keep := g.retention.Load().Undelivered
	if keep == 0 {
		return nil
	}
	gone, err := inBatches(checkBatch, func(limit int) (int, error) {
		return g.deps.Record.Expire(ctx, now.Add(-keep), now, limit)
	})
	if gone > 0 {
		g.deps.Metrics.Outcomes.WithLabelValues(HomeNetwork, string(federation.DeliveryDead)).Add(float64(gone))
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "deliveries given up", slog.Int("rows", gone), slog.String("reason", string(federation.DeadExpired)))
	}
	return err
}

// expireMessages ends the waits for messages that waited as long as the configuration allows.
func (g *Gateway) expireMessages(ctx context.Context, now time.Time) error {
	keep := g.retention.Load().Messages
	if keep == 0 {
		return nil
	}
	gone, err := inBatches(checkBatch, func(limit int) (int, error) {
		return g.deps.Record.ExpireMessages(ctx, now.Add(-keep), now, limit)
	})
	if gone > 0 {
		g.deps.Metrics.Outcomes.WithLabelValues(HomeNetwork, string(federation.DeliveryExpired)).Add(float64(gone))
		g.deps.Log.LogAttrs(ctx, slog.LevelInfo, "messages expired", slog.Int("rows", gone))
	}
	if err != nil {
		return err
	}
	held, err := inBatches(checkBatch, func(limit int) (int, error) {
		return g.deps.Record.ExpireHeld(ctx, now.Add(-keep), now, limit)
	})
	if held > 0 {
		g.deps.Metrics.Outcomes.WithLabelValues(HomeNetwork, string(federation.DeliveryExpired)).Add(float64(held))
		g.deps.Log.LogAttrs(ctx, slog.LevelInfo, "held relays expired", slog.Int("rows", held))
	}
	return err
}

// inBatches calls batch until it processes fewer rows than limit, and returns the sum.
func inBatches(limit int, batch func(limit int) (int, error)) (done int, err error) {
	for {
		n, err := batch(limit)
		done += n
		if err != nil || n < limit {
			return done, err
		}
	}
}

// rerouteAgain is how long after an error of the record deliveries are routed again.
const rerouteAgain = 5 * time.Second

// revivePage is how many dead letters are read at a time.
const revivePage = 200

// reroute routes deliveries again each time after other links were applied, until ctx ends.
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

// ReviveBlocked schedules the deliveries again that ended because their home was blocked, to the
// homes that are not blocked any more. It blocks on the record, and returns its error.
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
				g.deps.Wakes.Wake(bridge.OutboxTopic(dead.To))
			}
		}
	}
}
