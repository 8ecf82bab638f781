package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Newcomers remembers when the record met each DID, and how fast the record grows. Its
// promises are in [Store].
type Newcomers interface {
	// Acquainted reports whether the record knows a DID: as the signer of a filed step, as an
	// agent, or by a name that is bound to it. An inbox is no acquaintance, because any
	// sender can open one for any DID. The time is when the record met the DID, or zero where
	// that is longer ago than [federation.AcquaintanceAge].
	Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error)
	// Meet notes that the record knows a DID from now on. Meeting again changes nothing.
	Meet(ctx context.Context, did federation.DID, now time.Time) error
	// MetSince returns up to limit newcomers that the record met after a time, oldest first.
	MetSince(ctx context.Context, since time.Time, limit int) ([]federation.Newcomer, error)
	// Growth measures the record and returns by how many bytes it grew within the last
	// [federation.AcquaintanceAge]. It keeps a sample of the size each minute in which that changed, and
	// forgets the newcomers and the samples that are too old to matter.
	Growth(ctx context.Context, now time.Time) (int64, error)
}
