package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"baton/federation/store/registry"
)

// maxUnprovedNamed bounds the handles in one log line.
const maxUnprovedNamed = 20

// LogUnproved warns the operator about agents with keys that they did not prove: the did:keys of
// such keys reach no agent. After an upgrade these agents lost a DID.
func LogUnproved(ctx context.Context, record *registry.Record, log *slog.Logger) error {
	handles, total, err := record.Unproved(ctx, time.Now(), maxUnprovedNamed)
	if err != nil {
		return fmt.Errorf("look for agents without a proved key: %w", err)
	}
	if total > 0 {
		log.LogAttrs(ctx, slog.LevelWarn, "agents named keys that they did not prove; they do not receive for the did:keys of these",
			slog.Int("agents", total), slog.Any("handles", handles))
	}
	return nil
}
