package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// maxUnprovedNamed bounds the handles in one log line.
const maxUnprovedNamed = 20

// logUnproved tells the operator which agents have keys that they only named: the did:keys
// of such keys are not theirs. After an upgrade these are the agents that lost one.
func (p *program) logUnproved(ctx context.Context) error {
	handles, total, err := p.record.Unproved(ctx, time.Now(), maxUnprovedNamed)
	if err != nil {
		return fmt.Errorf("look for agents without a proved key: %w", err)
	}
	if total > 0 {
		p.log.LogAttrs(ctx, slog.LevelWarn, "agents named keys that they did not prove; they do not receive for the did:keys of these",
			slog.Int("agents", total), slog.Any("handles", handles))
	}
	return nil
}
