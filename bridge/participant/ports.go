package participant

import (
	"context"
	"iter"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
)

// Handoffs reads the handoffs of the record.
type Handoffs interface {
	// Handoffs returns up to limit handoffs that a filter admits, the newest movement first,
	// from after a cursor on, and the cursor to go on from: "" after the last. A page may be
	// shorter than limit before that. It returns [federation.ErrUnknownCursor] for a cursor
	// that the record never gave out.
	Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error)
	// Log yields the steps of a handoff after a version in order; after 0 are all. It ends at the
	// first error.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Receipts returns the receipts that the home of a handoff signed.
	Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error)
	// Reference returns the handoff of an event, or [federation.ErrNotFound].
	Reference(ctx context.Context, ref string) (federation.HandoffID, error)
	// Step returns one step of a handoff, or [federation.ErrNotFound].
	Step(ctx context.Context, handoff federation.HandoffID, id federation.EventID) (federation.Entry, error)
	// Deliveries returns the deliveries of the steps of a handoff, in the order of the steps.
	// It looks for pending ones in the outboxes of these links alone.
	Deliveries(ctx context.Context, id federation.HandoffID, links []string) ([]federation.Delivered, error)
	// DeferredStep returns a step that waits for a key, or [federation.ErrNotFound].
	DeferredStep(ctx context.Context, id federation.EventID) (federation.Deferred, error)
}

// Inbox reads the inboxes of the record, and keeps how far their devices are.
type Inbox interface {
	// Replay returns up to limit entries of an inbox after a cursor, oldest first. It returns
	// a [*federation.CursorError] for a cursor that this inbox never gave out.
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	// Devices returns the devices of a DID by name.
	Devices(ctx context.Context, of federation.DID) ([]federation.Device, error)
	// Advance ends the waiting of all entries up to a cursor, and keeps that for the device.
	// It returns [federation.ErrTooManyDevices], or a [*federation.CursorError] for a cursor
	// that this inbox never gave out.
	Advance(ctx context.Context, of federation.DID, device string, upTo federation.Cursor, now time.Time) error
}

// Answers keeps the answers to requests with an Idempotency-Key.
type Answers interface {
	// Reserve files an answer unless there is one with its key, and returns the one that is
	// on file then.
	Reserve(ctx context.Context, a federation.Answer) (federation.Answer, error)
	// Answered replaces the answer with the same key.
	Answered(ctx context.Context, a federation.Answer) error
}

// Skills keeps which capabilities DIDs have.
type Skills interface {
	// Declared returns the capabilities that a DID declared, here or elsewhere, each once.
	Declared(ctx context.Context, did federation.DID) ([]string, error)
	// Declare replaces the capabilities that a DID declared here.
	Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error
}

// Sessions stores the sessions behind tokens.
type Sessions interface {
	credential.Sessions

	// StartSession files a session. It returns [federation.ErrSessionEnded] for a key that was
	// revoked meanwhile.
	StartSession(ctx context.Context, s federation.Session) error
}

// Callers authenticates callers by the tokens that other parts of the gateway issue. It may
// block on the record.
type Callers interface {
	// Authenticate returns the participant of another link's token in a request, and false without
	// a valid token.
	Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error)
	// Operator reports whether a request carries the token of an operator. Its error wraps
	// [*federation.UnavailableError] where that is unknown now.
	Operator(r *http.Request) (bool, error)
}

// Venues finds the links and channels of this moment. It does not block.
type Venues interface {
	// Placers returns the links on which an offer can be written.
	Placers() []bridge.Placer
	// Present reports whether a DID is in a channel now.
	Present(ctx context.Context, venue string, did federation.DID) bool
	// Statuses returns the links, in the order of the configuration.
	Statuses() []bridge.LinkStatus
}

// Rates counts the steps of DIDs, in the buckets of the home. It does not block.
type Rates interface {
	// Left returns how many steps a DID has left.
	Left(did federation.DID, now time.Time) bridge.Allowance
	// Charge counts one step that the home never judged.
	Charge(did federation.DID, now time.Time)
}

// Passports makes passports of handoffs.
type Passports interface {
	// Passport returns the passport of a handoff. It reads the record and signs. Its error
	// may be a [*bridge.ProblemError].
	Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error)
}
