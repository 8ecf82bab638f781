package federation

import (
	"context"
	"time"
)

// Purged counts what a purge took from the record.
type Purged struct {
	Inbox    int `json:"inbox"`    // entries of inboxes that nobody had read
	Messages int `json:"messages"` // what waits for participants in the tables of a network
	Deferred int `json:"deferred"` // steps that waited for a key or for the ruling of another home
	Dead     int `json:"dead"`     // dead letters
	Outbox   int `json:"outbox"`   // deliveries to links, their peers and other homes
}

// Purges takes from the record what waits of some senders. Its promises are those of
// [Store].
type Purges interface {
	// Senders returns up to limit DIDs after one, in order, that offered a handoff which
	// is not over, or of whom something waits.
	Senders(ctx context.Context, after DID, limit int) ([]DID, error)
	// Purge drops what waits of DIDs and of names on links, in one transaction, or where dry counts
	// it. Logs keep their steps.
	Purge(ctx context.Context, dids []DID, participants []string, now time.Time, dry bool) (Purged, error)
}
