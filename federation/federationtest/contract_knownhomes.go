package federationtest

import (
	"context"

	"baton/federation"
)

// KnownHomes keeps the homes that operators added. Its promises are in [Store].
type KnownHomes interface {
	// KeepHome keeps a home, in place of what was kept of it before.
	KeepHome(ctx context.Context, h federation.KnownHome) error
	// ForgetHome ends that, or returns [federation.ErrNotFound].
	ForgetHome(ctx context.Context, home federation.HomeID) error
	// KnownHomes returns all of them, by name.
	KnownHomes(ctx context.Context) ([]federation.KnownHome, error)
}
