package server

import (
	"context"
	"log/slog"
	"time"

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
