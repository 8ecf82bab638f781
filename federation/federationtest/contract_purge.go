package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Purges takes from the record what waits of some senders. Its promises are those of
// [Store].
type Purges interface {
	// Senders returns up to limit DIDs after one, in order, that offered a handoff which
	// is not over, or of whom something waits.
	Senders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error)
	// Purge drops what waits of DIDs and of names on links, in one transaction, or where dry counts
	// it. Logs keep their steps.
	Purge(ctx context.Context, dids []federation.DID, participants []string, now time.Time, dry bool) (federation.Purged, error)
}
