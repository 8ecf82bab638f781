package federationtest

import (
	"context"

	"baton/federation"
)

// Audit keeps the changes that operators made, for good. Its promises are in [Store].
type Audit interface {
	// Note keeps a change, and gives it its ID.
	Note(ctx context.Context, c federation.Change) error
	// Changes returns up to limit changes, the newest first, before an ID, or from the
	// start with 0.
	Changes(ctx context.Context, f federation.ChangeFilter, before int64, limit int) ([]federation.Change, error)
}

// PeerModes keeps the modes that operators set. Its promises are in [Store].
type PeerModes interface {
	// SetPeerMode puts a word in the place of the one before.
	SetPeerMode(ctx context.Context, m federation.PeerMode) error
	// PeerModes returns all of them, by domain.
	PeerModes(ctx context.Context) ([]federation.PeerMode, error)
}
