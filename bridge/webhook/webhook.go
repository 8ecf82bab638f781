// Package webhook posts the steps in the inbox of a DID to an address registered by its owner. It
// serves agents that neither keep a connection open nor poll.
//
// The body is JSON, {"type", "timestamp", "data"}, signed as Standard Webhooks requires: with a secret
// shared with the owner, and with a key whose public half is published. Each attempt is signed again
// but keeps its ID, so that a receiver can detect duplicates.
//
// A 2xx response is a delivery and removes the step from the inbox. A 410 response disables the webhook
// and notifies its owner, which may enable it again. After any other response, even a redirect, the
// post is retried after one minute, then with doubled delays of up to sixteen hours. After the
// configured number of attempts, the delivery is a dead letter, and the step stays in the inbox. An
// address that responds with 429 or Retry-After is not called for that time. Only the first response
// after such a pause counts as an attempt.
//
// The record stores the time of the next attempt and the result of the last one, so that both survive a
// restart. The address is checked at registration, and again after each name lookup before dialling: a
// private address is never dialled.
//
// A fixed number of workers serves the webhooks of a home. A slow webhook delays others for at most one
// attempt, as long as there are more workers than slow webhooks. Senders take turns at each webhook.
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

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Config is the table [webhooks] of the configuration.
type Config struct {
	MaxPerDID   int
	MaxAttempts int           // per delivery
	Timeout     time.Duration // of one call
}

// Outside sends requests to untrusted addresses, but not to private ones; see [identity.Client].
type Outside interface {
	Callable(ctx context.Context, address string) error
	Call(ctx context.Context, address string, header http.Header, body []byte) (identity.Answer, error)
}

// Deps are the dependencies of hooks.
type Deps struct {
	Record  *registry.Record
	Outside Outside
	Key     []byte // secret, from which the keys of the hooks are derived
	// Pusher returns the link that currently writes the posts of a webhook. It returns nil if
	// deliveries must wait. It does not block.
	Pusher  func(h federation.Webhook) bridge.Pusher
	PubSub  bridge.PubSub
	Metrics *bridge.Metrics
	Log     *slog.Logger
}

// Hooks manages the webhooks of one home. It implements [bridge.Webhooks], and is safe for
// concurrent use.
type Hooks struct {
	cfg  Config
	deps Deps
}

var _ bridge.Webhooks = (*Hooks)(nil)

// New returns the hooks of a home.
func New(cfg Config, d Deps) *Hooks { return &Hooks{cfg, d} }

// maxAddressBytes is more than servers accept in a request.
const maxAddressBytes = 2048

// Check implements [bridge.Webhooks].
func (h *Hooks) Check(ctx context.Context, address string) error {
	if len(address) > maxAddressBytes {
		return fmt.Errorf("%w: it has more than %d bytes", bridge.ErrAddress, maxAddressBytes)
	}
	err := h.deps.Outside.Callable(ctx, address)
	if errors.Is(err, identity.ErrNotAllowed) { // its text would reveal the internal address of a name
		err = fmt.Errorf("%w: want an https URL with a public host, without a user and a fragment", bridge.ErrAddress)
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

func (h *Hooks) add(ctx context.Context, made federation.Webhook, now time.Time) (federation.Webhook, error) {
	var err error
	if made.ID, err = federation.NewEventID(now, rand.Reader); err != nil {
		return federation.Webhook{}, err
	}
	made.Since = now
	if err := h.deps.Record.AddWebhook(ctx, made, h.cfg.MaxPerDID); err != nil {
		return federation.Webhook{}, err
	}
	h.deps.PubSub.Wake(bridge.WebhooksTopic) // deliveries may have waited for it
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
	h.deps.PubSub.Wake(bridge.WebhooksTopic)
	return nil
}

// PublicKey implements [bridge.Webhooks].
func (h *Hooks) PublicKey(id federation.WebhookID) (string, error) {
	keys, err := newKeys(h.deps.Key, id)
	return keys.PublicKey(), err
}
