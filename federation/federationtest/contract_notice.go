package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Notices keeps the notices to signers and to owners of webhooks. Its promises are in
// [Store].
type Notices interface {
	// Notify files a notice, unless the signer was to be told of that kind about that
	// step before. The ports that end deliveries file theirs by themselves.
	Notify(ctx context.Context, n federation.Notice) error
	// Untold returns up to limit notices of a link (see [federation.Notice.Link]) that were
	// not told yet and are due now, oldest first.
	Untold(ctx context.Context, link string, now time.Time, limit int) ([]federation.Notice, error)
	// NoticesTo returns up to limit notices of a link to a reader after a cursor, or from
	// the start with the zero one, oldest first, told or not. It returns [federation.ErrUnknownCursor]
	// for a cursor of another reader.
	NoticesTo(ctx context.Context, link string, to federation.DID, after federation.Cursor, limit int) ([]federation.Notice, error)
	// TellLater puts a notice off: its reader is not there now.
	TellLater(ctx context.Context, n federation.Notice, next time.Time) error
	// Told notes that the signer was told, or that there is no reader to tell. An unknown
	// notice is no error.
	Told(ctx context.Context, n federation.Notice) error
	// PruneNotices forgets up to limit notices that were filed at or before a time, told
	// or not.
	PruneNotices(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}
