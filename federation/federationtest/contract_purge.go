package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Purges deletes the waiting rows of some senders. Its promises are in [Store].
type Purges interface {
	// Senders returns up to limit DIDs after one, in order, that offered a handoff which is
	// not over, or have a row that waits.
	Senders(ctx context.Context, after federation.DID, limit int) ([]federation.DID, error)
	// Purge drops what waits of DIDs and of names on links, in one transaction, or where dry counts
	// it. Logs keep their steps.
	Purge(ctx context.Context, dids []federation.DID, participants []string, now time.Time, dry bool) (federation.Purged, error)
}
