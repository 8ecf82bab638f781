package federationtest

import (
	"context"

	"baton/federation"
)

// OwnKeys remembers the keys that the record was written with. Its promises are in [Store].
type OwnKeys interface {
	// OwnKeys returns the newest mark of each name, ordered by name.
	OwnKeys(ctx context.Context) ([]federation.KeyMark, error)
	// MarkOwnKeys notes the keys that the record is written with from now on. A mark that is
	// the newest of its name already keeps its time.
	MarkOwnKeys(ctx context.Context, marks []federation.KeyMark) error
	// Used reports whether the record holds a handoff or an agent.
	Used(ctx context.Context) (bool, error)
}
