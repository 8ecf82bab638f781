package server

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Each replica reads most state of operators from the record with each request: tokens, bindings, holds.
// After a change at another replica it reads again what it has in memory: the blocks, and the state of
// the caller of Run, such as added homes and the gateway's own keys.

// changedTopic is the topic of changes by operators at any replica of a home.
const changedTopic = "changed"

// rereadEvery is how often changes of other replicas are read without a wake-up, which may be lost.
const rereadEvery = 5 * time.Second

// TellReplicas has the other replicas of the home read changed state again. It does not block.
func (g *Gateway) TellReplicas() { g.deps.Wakes.Wake(changedTopic) }

// FollowReplicas reads changes by operators at other replicas of the home, until ctx ends. It calls reread
// for the state of the caller.
func (g *Gateway) FollowReplicas(ctx context.Context, reread func(ctx context.Context) error) {
	wake, stop := g.deps.Wakes.Subscribe(changedTopic)
	defer stop()
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := errors.Join(reread(ctx), g.ReadBlocks(ctx)); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "changes of other replicas not read", slog.Any("err", err))
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
