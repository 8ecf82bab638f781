package agentapi

import (
	"context"
	"iter"
	"net/http"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
)

// Handoffs reads the handoffs of the record.
type Handoffs interface {
	// Handoffs returns up to limit handoffs that a filter admits, the newest movement first,
	// from after a cursor on, and the cursor to go on from: "" after the last. A page may be
	// shorter than limit before that. It returns [federation.ErrUnknownCursor] for a cursor
	// that the record never gave out.
	Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error)
	// Log yields the steps of a handoff in order. It ends at the first error.
	Log(ctx context.Context, id federation.HandoffID) iter.Seq2[federation.Entry, error]
	// Receipts returns the receipts that the home of a handoff signed.
	Receipts(ctx context.Context, id federation.HandoffID) ([]federation.Event, error)
}

// Inbox reads the inboxes of the record, and keeps how far their devices are.
type Inbox interface {
	// Replay returns up to limit entries of an inbox after a cursor, oldest first. It returns
	// a [*federation.CursorError] for a cursor that this inbox never gave out.
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	// Lease gives a device up to limit waiting entries that no device holds, until a moment.
	Lease(ctx context.Context, to federation.DID, device string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack ends the waiting of a leased entry. Ack, Nack and Extend return
	// [federation.ErrLeaseLost] where the entry was given out again, and
	// [federation.ErrNotFound] for a cursor that no lease has.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
	// Nack gives an entry back. No device gets it before a moment.
	Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error
	// Extend moves the end of a lease.
	Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error
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

// Notices reads the notices of the record.
type Notices interface {
	// NoticesTo returns up to limit notices of a link to a reader after a cursor, oldest
	// first. It returns [federation.ErrUnknownCursor] for a cursor of another reader.
	NoticesTo(ctx context.Context, link string, to federation.DID, after federation.Cursor, limit int) ([]federation.Notice, error)
}

// Sessions keeps the sessions behind refresh tokens.
type Sessions interface {
	// StartSession files a session.
	StartSession(ctx context.Context, s federation.Session) error
	// AdvanceSession moves a session on from a generation, until a moment. It returns
	// [federation.ErrTokenUsed] for another generation, which ends the session, and
	// [federation.ErrNotFound] for a session that has ended.
	AdvanceSession(ctx context.Context, id string, generation uint64, now, expires time.Time) (federation.Session, error)
}

// Webhooks reads and changes the webhooks of the record.
type Webhooks interface {
	// Webhook returns [federation.ErrNotFound] for an unknown ID, as RemoveHook and PushAgain do.
	Webhook(ctx context.Context, id federation.WebhookID) (federation.Webhook, error)
	// Webhooks returns up to limit webhooks of a DID by ID, after one.
	Webhooks(ctx context.Context, of federation.DID, after federation.WebhookID, limit int) ([]federation.Webhook, error)
	// WebhookBacklog counts the pending deliveries of a webhook.
	WebhookBacklog(ctx context.Context, id federation.WebhookID) (federation.WebhookBacklog, error)
	// RemoveWebhook deletes a webhook and its deliveries.
	RemoveWebhook(ctx context.Context, id federation.WebhookID) error
	// Pushes returns up to limit deliveries of a webhook, the newest first, before a
	// position, or from the newest with 0.
	Pushes(ctx context.Context, id federation.WebhookID, before int64, limit int) ([]federation.Push, error)
	// PushAgain schedules the deliveries of what ref names, or with "" all that failed, and
	// returns how many there are.
	PushAgain(ctx context.Context, id federation.WebhookID, ref string, now time.Time) (int, error)
	// AgentOf returns the agent that registered with a DID, or [federation.ErrNotFound].
	AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error)
}

// Skills keeps which capabilities DIDs have.
type Skills interface {
	// Declared returns the capabilities that a DID declared, here or elsewhere, each once.
	Declared(ctx context.Context, did federation.DID) ([]string, error)
	// Declare replaces the capabilities that a DID declared here.
	Declare(ctx context.Context, did federation.DID, caps []string, now time.Time) error
}

// Callers authenticates callers by the tokens that other parts of the gateway issue. It may
// block on the record.
type Callers interface {
	// Authenticate returns the DID of the participant whose token of another link a request
	// carries, and false for a request without one.
	Authenticate(r *http.Request) (did federation.DID, ok bool, err error)
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
