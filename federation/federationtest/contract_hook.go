package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// Webhooks keeps hooks, and what each is owed. What enters an inbox, and what its owner is told
// on the [federation.InboxLink], is owed to the hooks of that inbox in the same transaction. Its
// promises are those of [Store].
type Webhooks interface {
	// AddWebhook keeps a hook. What waits in its inbox is owed to it from then on, as is what
	// comes. It returns [federation.ErrTooManyWebhooks] where the DID has that many already, and
	// [federation.ErrTaken] where it has one with that address.
	AddWebhook(ctx context.Context, h federation.Webhook, most int) error
	// Webhook returns [federation.ErrNotFound] for an id that no hook has.
	Webhook(ctx context.Context, id federation.WebhookID) (federation.Webhook, error)
	// Webhooks returns up to limit hooks of a DID, or with "" of everybody, by id after one,
	// or from the start with the zero id.
	Webhooks(ctx context.Context, of federation.DID, after federation.WebhookID, limit int) ([]federation.Webhook, error)
	// RemoveWebhook forgets a hook with all that it was owed. It returns [federation.ErrNotFound] as Hook
	// does.
	RemoveWebhook(ctx context.Context, id federation.WebhookID) error
	// DisableWebhook notes that a hook is called no more, and files a [federation.NoticeDisabled]. What it
	// was owed is refused; it stays in the inbox. Doing it again changes nothing.
	DisableWebhook(ctx context.Context, id federation.WebhookID, why string, now time.Time) error
	// EnableWebhook has a hook called again that was disabled. What waits in its inbox is owed
	// to it from then on, counted anew; what was given up stays so. One that is not
	// disabled stays as it is. It returns [federation.ErrNotFound] as Hook does.
	EnableWebhook(ctx context.Context, id federation.WebhookID) error
	// TakeWebhooks returns up to limit hooks that something is due to, those first that have
	// waited longest, for the caller alone: nobody else is given one before it is let go,
	// or until a time.
	TakeWebhooks(ctx context.Context, now, until time.Time, limit int) ([]federation.Webhook, error)
	// LetGo ends that. A hook to which something is due by then comes after those that
	// wait for their turn.
	LetGo(ctx context.Context, id federation.WebhookID, now time.Time) error
	// NextDue returns when something is due to a hook next, after a time; zero for nothing.
	NextDue(ctx context.Context, after time.Time) (time.Time, error)
	// NextPush returns what is due first to a hook, or [federation.ErrNotFound] where nothing is.
	NextPush(ctx context.Context, id federation.WebhookID, now time.Time) (federation.Push, error)
	// PushFailed notes that an attempt came to nothing, and when the next one is. One that
	// is Counted is only put off.
	PushFailed(ctx context.Context, id federation.WebhookID, item int64, f federation.Failure) error
	// PushEnded ends the waiting of a push. What was delivered waits in its inbox no more,
	// as after [Inboxes.Read]; of a step that was given up there is a dead letter, of which
	// nobody is told: it waits in the inbox on.
	PushEnded(ctx context.Context, id federation.WebhookID, item int64, s federation.Settlement) error
	// PushAgain puts back what a [federation.Push.Ref] names, or with "" all that was not delivered,
	// to be made at once and counted anew. It returns how many there are; [federation.ErrNotFound]
	// for a hook that is not there.
	PushAgain(ctx context.Context, id federation.WebhookID, ref string, now time.Time) (int, error)
	// Pushes returns up to limit of what a hook is owed and was, the newest first, before
	// a position, or from the start with 0.
	Pushes(ctx context.Context, id federation.WebhookID, before int64, limit int) ([]federation.Push, error)
	// WebhookBacklog counts what waits for a hook.
	WebhookBacklog(ctx context.Context, id federation.WebhookID) (federation.WebhookBacklog, error)
	// WebhooksBacklog counts what waits for all of them.
	WebhooksBacklog(ctx context.Context) (federation.Backlog, error)
}
