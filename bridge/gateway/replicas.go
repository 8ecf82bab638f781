package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Most of the changes that operators make at one replica of a home are read from the record with
// each request: tokens, bindings, holds. The other replicas read again the changes that a replica
// keeps in memory: the blocks, and the state of the caller of Run, such as the homes that were
// added and the gateway's own keys.

// changedTopic is the topic of the replicas of a home at which something was changed.
const changedTopic = "changed"

// rereadEvery is how often changes of other replicas are looked for: a wake-up may have been
// lost.
const rereadEvery = 5 * time.Second

// TellReplicas has the other replicas of the home read what was changed here. It does not
// block.
func (g *Gateway) TellReplicas() { g.deps.Wakes.Wake(changedTopic) }

// FollowReplicas reads what operators change at other replicas of the home, until ctx ends.
// It calls reread for what the caller keeps in memory.
func (g *Gateway) FollowReplicas(ctx context.Context, reread func(ctx context.Context) error) {
	wake, stop := g.deps.Wakes.Subscribe(changedTopic)
	defer stop()
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := errors.Join(reread(ctx), g.ReadBlocks(ctx)); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "not taken up what was changed at other gateways", slog.Any("err", err))
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
