// Package webhook posts the steps in the inbox of a DID to an address registered by its owner, for
// agents that neither hold a connection nor poll.
//
// The body is JSON, {"type", "timestamp", "data"}, signed as Standard Webhooks requires: with a
// secret shared by the owner, and with a key whose public half is public. Each attempt is signed
// anew and keeps the ID of the first one, by which a receiver recognizes repeats. A 2xx answer is a
// delivery and removes the step from the inbox. A 410 answer disables the webhook and notifies its
// owner, which may enable it again. Every other answer, including a redirect, is retried after one
// minute, then with doubled delays of up to sixteen hours, for the configured number of attempts.
// Then the delivery is a dead letter, and the step stays in the inbox.
//
// The record keeps the time of the next attempt and the result of the last one, so that both
// survive a restart. The address is checked at registration, and again after each name lookup
// before dialling: a private address is never dialled.
//
// A fixed number of workers serves the webhooks of a home. A slow webhook delays only itself, and
// delays others for at most one attempt, as long as there are more workers than slow webhooks.
//
// Senders take turns at each webhook. An address that answers 429, or sets Retry-After, is not
// called for that time. The answer counts as an attempt only if it is the first one after such a
// pause.
//
// spec: Standard Webhooks 1.0.0
package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Config is the table [webhooks] of the configuration.
type Config struct {
	MaxPerDID   int
	MaxAttempts int           // on one delivery
	Timeout     time.Duration // of one call, at most
}

// The errors of [Outside] that mean something here.
var (
	// ErrAddress is for an address that is never called.
	ErrAddress = errors.New("webhook: address not allowed")
	// ErrTurn is for a host that must not be called just now.
	ErrTurn = errors.New("webhook: not the turn of this host")
)

// Answer is what an address answered.
type Answer struct {
	Status     int
	RetryAfter time.Duration // zero where it did not say
}

// taken reports whether the address took what was posted.
func (a Answer) taken() bool { return a.Status >= 200 && a.Status < 300 }

// Outside calls addresses that strangers chose, and no private one.
type Outside interface {
	// Callable returns an error wrapping [ErrAddress] for an address that must not be
	// called, and a [*federation.UnavailableError] when the check cannot be made now.
	Callable(ctx context.Context, address string) error
	// Call posts something and follows no redirect. Its error wraps [ErrAddress],
	// [ErrTurn], or a [*federation.UnavailableError] when there was no answer. It blocks
	// for a bounded time.
	Call(ctx context.Context, address string, header http.Header, body []byte) (Answer, error)
}

// Record keeps webhooks and their pending deliveries.
type Record interface {
	// AddWebhook keeps a webhook. Steps that wait in its inbox are pending for it. It returns
	// [federation.ErrTooManyWebhooks] where the DID has most of them, and [federation.ErrTaken]
	// where it has one with the same address.
	AddWebhook(ctx context.Context, h federation.Webhook, most int) error
	// DisableWebhook disables a webhook, ends its deliveries and files a notice for its owner.
	DisableWebhook(ctx context.Context, id federation.WebhookID, why string, now time.Time) error
	// EnableWebhook enables a webhook with the Key, Unbound and Ends of h, or returns
	// [federation.ErrNotFound].
	EnableWebhook(ctx context.Context, h federation.Webhook) error
	// TakeWebhooks returns up to limit webhooks with a due delivery, the longest waiting first.
	// Until LetGo or a moment no other replica gets them.
	TakeWebhooks(ctx context.Context, now, until time.Time, limit int) ([]federation.Webhook, error)
	// LetGo ends the lease. Deliveries that already wait for the webhook are not due before at,
	// which may be in the future.
	LetGo(ctx context.Context, id federation.WebhookID, at time.Time) error
	// NextDue returns when the next delivery after a time is due; zero for none.
	NextDue(ctx context.Context, after time.Time) (time.Time, error)
	// DuePushes reads the first limit due deliveries of a webhook, oldest first, and returns the
	// first one of each handoff or conversation.
	DuePushes(ctx context.Context, id federation.WebhookID, now time.Time, limit int) ([]federation.DuePush, error)
	// DuePush returns a delivery of a webhook, or [federation.ErrNotFound] if it is not due.
	DuePush(ctx context.Context, id federation.WebhookID, item int64, now time.Time) (federation.Push, error)
	// PushFailed keeps a failed attempt and when the next one is due.
	PushFailed(ctx context.Context, id federation.WebhookID, item int64, f federation.Failure) error
	// PushEnded ends a delivery: as delivered, or as a dead letter.
	PushEnded(ctx context.Context, id federation.WebhookID, item int64, s federation.Settlement) error
}

// Pushers finds the link that writes what a webhook receives. It does not block.
type Pushers interface {
	// Pusher returns the link of this moment for a webhook, or nil: then deliveries wait.
	Pusher(h federation.Webhook) bridge.Pusher
}

// Deps is what hooks work with.
type Deps struct {
	Record  Record
	Outside Outside
	Key     []byte // secret; its holder can sign what hooks receive
	Pushers Pushers
	Wakes   bridge.Wakes
	Metrics *bridge.Metrics
	Log     *slog.Logger
}

// Hooks is the hooks of one home. It implements [bridge.Webhooks], and may be used
// concurrently.
type Hooks struct {
	cfg  Config
	deps Deps
}

var _ bridge.Webhooks = (*Hooks)(nil)

// New returns the hooks of a home.
func New(cfg Config, d Deps) *Hooks { return &Hooks{cfg, d} }

// maxAddressBytes bounds an address: more than servers take in a request.
const maxAddressBytes = 2048

// Check implements [bridge.Webhooks].
func (h *Hooks) Check(ctx context.Context, address string) error {
	if len(address) > maxAddressBytes {
		return fmt.Errorf("%w: it has more than %d bytes", bridge.ErrAddress, maxAddressBytes)
	}
	err := h.deps.Outside.Callable(ctx, address)
	if errors.Is(err, ErrAddress) { // which says what a name stands for inside
		err = fmt.Errorf("%w: it is to be https, with a public host, nothing before that, and no fragment", bridge.ErrAddress)
	}
	return err
}

// Register implements [bridge.Webhooks].
func (h *Hooks) Register(ctx context.Context, hook federation.Webhook, now time.Time) (bridge.Registered, error) {
	made, err := h.Follow(ctx, hook, now)
	if err != nil {
		return bridge.Registered{}, err
	}
	keys, err := newKeys(h.deps.Key, made.ID)
	if err != nil {
		return bridge.Registered{}, err
	}
	return bridge.Registered{Webhook: made, Secret: keys.Secret(), PublicKey: keys.PublicKey()}, nil
}

// add keeps a webhook under a new ID.
func (h *Hooks) add(ctx context.Context, made federation.Webhook, now time.Time) (federation.Webhook, error) {
	var err error
	if made.ID, err = federation.NewEventID(now, rand.Reader); err != nil {
		return federation.Webhook{}, err
	}
	made.Since = now
	if err := h.deps.Record.AddWebhook(ctx, made, h.cfg.MaxPerDID); err != nil {
		return federation.Webhook{}, err
	}
	h.deps.Wakes.Wake(bridge.WebhooksTopic) // something may have waited for it
	return made, nil
}

// Follow implements [bridge.Webhooks].
func (h *Hooks) Follow(ctx context.Context, hook federation.Webhook, now time.Time) (federation.Webhook, error) {
	if err := h.Check(ctx, hook.URL); err != nil {
		return federation.Webhook{}, err
	}
	return h.add(ctx, hook, now)
}

// Enable implements [bridge.Webhooks].
func (h *Hooks) Enable(ctx context.Context, disabled federation.Webhook) error {
	if err := h.Check(ctx, disabled.URL); err != nil {
		return err
	}
	if err := h.deps.Record.EnableWebhook(ctx, disabled); err != nil {
		return err
	}
	h.deps.Wakes.Wake(bridge.WebhooksTopic)
	return nil
}

// PublicKey implements [bridge.Webhooks].
func (h *Hooks) PublicKey(id federation.WebhookID) (string, error) {
	keys, err := newKeys(h.deps.Key, id)
	return keys.PublicKey(), err
}
