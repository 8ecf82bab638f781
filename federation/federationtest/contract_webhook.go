package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Webhooks keeps webhooks and their deliveries. The transaction that files an entry of an
// inbox, or a notice on the [federation.InboxLink], queues its deliveries to the webhooks of
// the inbox. The transaction that files a step queues its deliveries to the webhooks that follow
// its handoff. Its promises are in [Store].
type Webhooks interface {
	// AddWebhook keeps a webhook and queues the entries that wait in its inbox. It returns
	// [federation.ErrTooManyWebhooks] where the DID has that many already, and
	// [federation.ErrTaken] where it has one with that address. Webhooks that follow a handoff
	// are counted for each handoff, and may share an address under different labels.
	AddWebhook(ctx context.Context, h federation.Webhook, most int) error
	// Webhook returns [federation.ErrNotFound] for an unknown id.
	Webhook(ctx context.Context, id federation.WebhookID) (federation.Webhook, error)
	// Webhooks returns up to limit webhooks of a DID, without followers of a handoff, or with ""
	// all webhooks of every DID, by id after one, or from the start with the zero id.
	Webhooks(ctx context.Context, of federation.DID, after federation.WebhookID, limit int) ([]federation.Webhook, error)
	// Followers returns the webhooks of a DID that follow a handoff, by id.
	Followers(ctx context.Context, of federation.DID, id federation.HandoffID) ([]federation.Webhook, error)
	// RemoveWebhook deletes a webhook with its deliveries. It returns
	// [federation.ErrNotFound] for an unknown id.
	RemoveWebhook(ctx context.Context, id federation.WebhookID) error
	// DisableWebhook stops the deliveries to a webhook, and files a
	// [federation.NoticeDisabled]. Its pending deliveries are refused; their entries stay in
	// the inbox. A second call changes nothing.
	DisableWebhook(ctx context.Context, id federation.WebhookID, why string, now time.Time) error
	// EnableWebhook resumes the deliveries to a disabled webhook. It queues the waiting entries of
	// the inbox, with new counts; dead deliveries stay dead. The webhook gets the Key, Unbound and
	// Ends of h. It does not change an enabled webhook. It returns [federation.ErrNotFound] for an
	// unknown ID.
	EnableWebhook(ctx context.Context, h federation.Webhook) error
	// TakeWebhooks leases up to limit webhooks with a due delivery or a past end to the caller,
	// longest waiting first. No other caller gets them until LetGo or the time until.
	TakeWebhooks(ctx context.Context, now, until time.Time, limit int) ([]federation.Webhook, error)
	// LetGo ends the lease. Deliveries that already wait for the webhook are not due before at,
	// which may be in the future; later ones are. A webhook with deliveries due at that time goes
	// behind the waiting webhooks.
	LetGo(ctx context.Context, id federation.WebhookID, at time.Time) error
	// NextDue returns when the next delivery to any webhook is due, after a time; zero for
	// none.
	NextDue(ctx context.Context, after time.Time) (time.Time, error)
	// DuePushes reads the first limit due deliveries to a webhook, oldest first, and returns the
	// first one of each handoff or conversation. It returns none after the end of the webhook.
	DuePushes(ctx context.Context, id federation.WebhookID, now time.Time, limit int) ([]federation.DuePush, error)
	// DuePush returns a delivery to a webhook, or [federation.ErrNotFound] if it is not due or the
	// webhook has ended.
	DuePush(ctx context.Context, id federation.WebhookID, item int64, now time.Time) (federation.Push, error)
	// PushFailed records a failed attempt, and the time of the next one.
	PushFailed(ctx context.Context, id federation.WebhookID, item int64, f federation.Failure) error
	// PushEnded ends a delivery. A delivered entry stops waiting in its inbox, as after
	// [Inboxes.Read]. A step that was given up becomes a dead letter without a notice: it
	// goes on waiting in the inbox.
	PushEnded(ctx context.Context, id federation.WebhookID, item int64, s federation.Settlement) error
	// PushAgain puts back the delivery that a [federation.Push.Ref] names, or with "" all
	// that did not arrive, to be made at once with new counts. It returns how many;
	// [federation.ErrNotFound] for an unknown webhook.
	PushAgain(ctx context.Context, id federation.WebhookID, ref string, now time.Time) (int, error)
	// Pushes returns up to limit deliveries to a webhook, pending and ended, the newest
	// first, before a position, or from the start with 0.
	Pushes(ctx context.Context, id federation.WebhookID, before int64, limit int) ([]federation.Push, error)
	// WebhookBacklog counts the pending deliveries of a webhook.
	WebhookBacklog(ctx context.Context, id federation.WebhookID) (federation.WebhookBacklog, error)
	// WebhooksBacklog counts what waits for all of them.
	WebhooksBacklog(ctx context.Context) (federation.Backlog, error)
}
