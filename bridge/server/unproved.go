package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// maxUnprovedNamed bounds the handles in one log line.
const maxUnprovedNamed = 20

// UnprovedRecord finds agents with keys that they did not prove.
type UnprovedRecord interface {
	// Unproved returns up to limit handles of such agents, and how many agents there are. It
	// blocks on the record, and returns its error.
	Unproved(ctx context.Context, now time.Time, limit int) (handles []string, total int, err error)
}

// LogUnproved warns the operator about agents with keys that they did not prove: the did:keys of
// such keys reach no agent. After an upgrade these agents lost a DID.
func LogUnproved(ctx context.Context, record UnprovedRecord, log *slog.Logger) error {
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
