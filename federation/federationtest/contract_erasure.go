package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Erasures erases the content of what a person took part in. Logs keep their steps without
// content: their digests, DIDs, verbs and times.
type Erasures interface {
	// Erasable counts what Erase would erase, and changes nothing.
	Erasable(ctx context.Context, of federation.ErasureQuery) (federation.Erasing, error)
	// Erase erases, in several transactions. Where the person has a handoff that is not over, it
	// names these and erases nothing. An erasure that was cut short is resumed by calling Erase
	// again, which then counts the rest.
	Erase(ctx context.Context, of federation.ErasureQuery, now time.Time) (federation.Erasing, error)
	// Compact removes deleted bytes from the files of the record. It blocks while the record is
	// written anew, and with it every write. A database server compacts by itself: Compact does
	// nothing there.
	Compact(ctx context.Context) error
}
