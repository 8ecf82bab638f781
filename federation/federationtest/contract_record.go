package federationtest

import (
	"context"
	"iter"
	"time"

	"baton/federation"
)

// Store is the record of handoffs. It is durable: a nil error means that the
// change survives a power cut. Its methods may be called concurrently and block
// on the disk. Each returns an error wrapping [*federation.UnavailableError] when the disk
// cannot be written or read now.
type Store interface {
	// Append files a step. It returns [federation.ErrStale] when f.After is not the version
	// of the log any more, and a [*federation.RefusalError] with [federation.EventIDInUse] when the
	// signer used the id before for other bytes, or the handoff id opened another
	// handoff. The same step twice (see [federation.Event.Digest]) is filed once and answered
	// with the first Entry.
	Append(ctx context.Context, f federation.Filing) (federation.Entry, error)
	// Known returns the entry that a signer's step already has, found by its id, and
	// where that finds nothing by its digest: a gateway that vouches for the same
	// message a second time mints another id for it. It returns [federation.ErrNotFound] for a
	// step not seen before and a [*federation.RefusalError] with [federation.EventIDInUse] when the id
	// was used for other bytes.
	Known(ctx context.Context, from federation.DID, id federation.EventID, digest [32]byte) (federation.Entry, error)
	// View returns the zero View for a handoff that has no log here.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Log yields the steps of one handoff after a version, oldest first, and ends; after 0 are all.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Receipts returns the home's receipts for the steps of a handoff, oldest first.
	Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error)
	// Reference returns the handoff of a step by its event ID or the id of the
	// message that carried it, or [federation.ErrNotFound].
	Reference(ctx context.Context, ref string) (federation.HandoffID, error)
	// Evidence returns the bytes that a filed step or a kept rendition named by
	// their SHA-256, or [federation.ErrNotFound].
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
	// EvidenceOf returns the view of the handoff that named evidence first, or
	// [federation.ErrNotFound] for bytes that none named.
	EvidenceOf(ctx context.Context, digest [32]byte) (federation.View, error)
	// Keep files the evidence behind a rendition of a step of a handoff. Keeping it
	// again changes nothing.
	Keep(ctx context.Context, id federation.HandoffID, evidence federation.Evidence) error
	// Step returns the entry of a step in the log of a handoff by its event ID, the
	// first where several signers used one, or [federation.ErrNotFound].
	Step(ctx context.Context, handoff federation.HandoffID, id federation.EventID) (federation.Entry, error)
	// Due returns up to limit handoffs on which a clock has been running since a time
	// or longer, those first that it runs on longest.
	Due(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error)
}

// Inboxes holds the arrivals of each DID. Its promises are in [Store].
type Inboxes interface {
	// Replay returns up to limit entries that reached an inbox after the cursor,
	// oldest first. Reading changes nothing. It returns a [*federation.CursorError], which wraps
	// [federation.ErrUnknownCursor], for a cursor that this inbox never gave out.
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	// Waiting returns how many entries of an inbox are unread, and their bytes of signed
	// documents.
	Waiting(ctx context.Context, to federation.DID) (entries int, size int64, err error)
	// Use returns what waits in an inbox, and how much of that one DID signed.
	Use(ctx context.Context, to, from federation.DID) (federation.InboxUse, error)
	// Read notes that a DID has been shown some steps, which wait no more from then on:
	// they are delivered, and the signer of one that was told that it takes time is told
	// that too. A step that never reached the inbox is no error.
	Read(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error
	// Lapse ends the waiting of steps that a DID was never shown: they are expired, and
	// stay to be read. Their signers are told; of an offer the home tells its offerer.
	Lapse(ctx context.Context, to federation.DID, events []federation.EventID, now time.Time) error
	// Undelivered returns up to limit entries that were filed at or before a time and
	// wait in an inbox ever since, oldest first.
	Undelivered(ctx context.Context, before time.Time, limit int) ([]federation.Undelivered, error)
}

// Bindings remembers the signers of filed steps, and the DIDs that vouched steps stand for.
// Its promises are in [Store].
type Bindings interface {
	// Binding returns [federation.ErrNotFound] for a DID that never signed a filed step, nor had
	// one vouched for in its name.
	Binding(ctx context.Context, did federation.DID) (federation.Binding, error)
	// BindingByHash finds a DID by the first characters of its [federation.DID.Hash], at
	// least ten. It returns [federation.ErrNotFound] when none or more than one fits.
	BindingByHash(ctx context.Context, prefix string) (federation.Binding, error)
	// KeyOwner returns the DID of the key with this [federation.KeyID]: the key of a signer of a
	// filed step, a key in the tables of a network, or a key kept by the gateway for the DID. It
	// returns [federation.ErrNotFound] for an unknown key.
	KeyOwner(ctx context.Context, keyID string) (federation.DID, error)
}
