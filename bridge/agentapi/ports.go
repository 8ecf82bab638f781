package agentapi

import (
	"context"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Leases gives the entries of inboxes to devices for a time.
type Leases interface {
	// Lease gives a device up to limit waiting entries that no device holds, until a moment.
	Lease(ctx context.Context, to federation.DID, device, session string, now, until time.Time, limit int) ([]federation.Lease, error)
	// Ack ends the waiting of a leased entry. Ack, Nack and Extend return
	// [federation.ErrLeaseLost] where the entry was given out again, and
	// [federation.ErrNotFound] for a cursor that no lease has.
	Ack(ctx context.Context, to federation.DID, hold federation.Hold, now time.Time) error
	// Nack gives an entry back. No device gets it before a moment.
	Nack(ctx context.Context, to federation.DID, hold federation.Hold, again time.Time) error
	// Extend moves the end of a lease.
	Extend(ctx context.Context, to federation.DID, hold federation.Hold, until time.Time) error
}

// Notices reads the notices of the record.
type Notices interface {
	// NoticesTo returns up to limit notices of a link to a reader after a cursor, oldest
	// first. It returns [federation.ErrUnknownCursor] for a cursor of another reader.
	NoticesTo(ctx context.Context, link string, to federation.DID, after federation.Cursor, limit int) ([]federation.Notice, error)
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
