package federation

import (
	"context"
	"time"
)

// KeyProofs records which keys of agents were proved. A key that an agent only named
// signs for its handle and has no DID.
//
// spec: airc-shapes "Who is who"
type KeyProofs interface {
	// ProveKey gives an agent the did:key of one of its keys, which it proved for its
	// handle, and returns the agent as it is after. A DID that an agent already has does
	// not change. ProveKey returns [ErrNotFound] for a key that the agent does not have.
	ProveKey(ctx context.Context, handle, kid string, did DID, now time.Time) (Agent, error)
	// Unproved returns up to limit handles of agents of this registry with keys that sign
	// now and were not proved, in their order, and how many there are in all.
	Unproved(ctx context.Context, now time.Time, limit int) (handles []string, total int, err error)
}
