package federation

import (
	"context"
	"time"
)

// KnownHome is another home that an operator added while the gateway ran.
type KnownHome struct {
	Home  HomeID
	URL   string // where it is reached, without a path
	Path  string // relay or https
	Since time.Time
}

// KnownHomes keeps those homes. Its promises are those of [Store].
type KnownHomes interface {
	// KeepHome keeps a home, in place of what was kept of it before.
	KeepHome(ctx context.Context, h KnownHome) error
	// ForgetHome ends that, or returns [ErrNotFound].
	ForgetHome(ctx context.Context, home HomeID) error
	// KnownHomes returns all of them, by name.
	KnownHomes(ctx context.Context) ([]KnownHome, error)
}
