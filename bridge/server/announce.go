package server

import (
	"context"
	"log/slog"
	"time"
)

// readyPoll is how often the start looks whether all is up yet.
const readyPoll = 100 * time.Millisecond

// Announce returns a task that tells the service manager that the gateway serves, and the log once
// the gateway is ready. Parts that are still down do not delay the service manager: /readyz names
// them.
func (g *Gateway) Announce(ready func(ctx context.Context) bool) Task {
	return func(ctx context.Context) error {
		g.tellManager(ctx, "READY=1")
		tick := time.NewTicker(readyPoll)
		defer tick.Stop()
		for !ready(ctx) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
		g.deps.Log.LogAttrs(ctx, slog.LevelInfo, "ready")
		return nil
	}
}

// AnnounceEnd tells the service manager that the gateway ends.
func (g *Gateway) AnnounceEnd(ctx context.Context) { g.tellManager(ctx, "STOPPING=1") }

func (g *Gateway) tellManager(ctx context.Context, state string) {
	if err := NotifySystemd(ctx, state); err != nil {
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "service manager not told", slog.Any("err", err))
	}
}
