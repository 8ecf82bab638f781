package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/identity"
)

// Retry delays of a webhook that currently accepts nothing.
const (
	turnWait = time.Second // the host must not be called yet
	linkWait = time.Minute // no link posts for this agent
	busyWait = time.Minute // after a 429 response without Retry-After
)

// spec: Standard Webhooks 1.0.0 "Payload structure"
type envelope struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"` // time of queueing
	Data      json.RawMessage `json:"data"`
}

// ID returns the ID of a post to the hooks of one inbox. It is the same for each attempt. It
// includes the inbox position, because two signers may use the same ID.
func ID(h federation.Webhook, p federation.Push) string {
	owner, place := string(h.DID), p.Entry.Number
	switch {
	case h.Participant != "":
		owner = h.Participant
		if p.Content != nil { // nil if the record cannot read it
			place = p.Content.Place()
		}
	case p.Notice.Kind != "": // a hook may be disabled several times
		place = uint64(p.Item) //nolint:gosec // G115: items are counted from 1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", owner, p.Ref(), place))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// A delivery succeeds if all its posts get a 2xx response. A host is not called during its
// requested pause.
func (h *Hooks) deliver(ctx context.Context, hook federation.Webhook, p federation.Push) error {
	pusher := h.deps.Pusher(hook)
	if pusher == nil {
		return &delivery.LaterError{Pause: linkWait, Untried: true, Err: errNoLink}
	}
	posts, err := h.posts(ctx, pusher, hook, p)
	if errors.Is(err, bridge.ErrBroken) {
		return &federation.DeadLetterError{Reason: federation.DeadBroken, Why: err.Error()}
	}
	if err != nil {
		return fmt.Errorf("%w: write for hook: %w", delivery.ErrUnnoted, err)
	}
	answer, err := h.call(ctx, hook.URL, posts)
	switch {
	case errors.Is(err, identity.ErrTurn):
		return &delivery.LaterError{Pause: turnWait, Untried: true, Err: err}
	case err != nil:
		h.deps.Log.LogAttrs(ctx, slog.LevelDebug, "webhook did not answer", slog.String("link", federation.WebhookName(hook.ID)), slog.Any("err", err))
		return publicError(err)
	case answer.Status == http.StatusGone:
		return h.disable(ctx, hook)
	case accepted(answer):
		if err := pusher.Taken(context.WithoutCancel(ctx), hook, p); err != nil { // also during shutdown, to prevent a second post
			return fmt.Errorf("%w: taken: %w", delivery.ErrUnnoted, err)
		}
		return nil
	}
	err = &statusError{answer.Status}
	retry := h.policy().Retry
	if wait := pause(answer, retry.Longest); wait > 0 {
		next := min(max(retry.After(p.Attempt+1, 0), answer.RetryAfter), retry.Longest)
		return &delivery.LaterError{Pause: wait, Wait: next, TooSoon: true, Err: err}
	}
	return err
}

var errNoLink = errors.New("no link posts for this agent now")

func (h *Hooks) posts(ctx context.Context, pusher bridge.Pusher, hook federation.Webhook, p federation.Push) ([]bridge.Post, error) {
	if poster, ok := pusher.(bridge.Poster); ok {
		return poster.Posts(ctx, hook, p)
	}
	kind, data, err := pusher.Write(ctx, hook, p)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(envelope{Type: kind, Timestamp: p.Queued.UTC().Truncate(time.Millisecond), Data: data})
	if err != nil {
		return nil, err
	}
	keys, err := newKeys(h.deps.Key, hook.ID)
	if err != nil {
		return nil, err
	}
	return []bridge.Post{{Header: keys.header(ID(hook, p), body, time.Now()), Body: body}}, nil
}

// An empty list succeeds.
func (h *Hooks) call(ctx context.Context, address string, posts []bridge.Post) (identity.Answer, error) {
	answer := identity.Answer{Status: http.StatusNoContent}
	for _, post := range posts {
		var err error
		if answer, err = h.deps.Outside.Call(ctx, address, post.Header, post.Body); err != nil || !accepted(answer) {
			return answer, err
		}
	}
	return answer, nil
}

func accepted(a identity.Answer) bool { return a.Status >= 200 && a.Status < 300 }

// pause returns how long the address must not be called after a response.
//
// spec: RFC 6585 §4, RFC 9110 §10.2.3
func pause(a identity.Answer, longest time.Duration) time.Duration {
	if a.Status == http.StatusTooManyRequests && a.RetryAfter <= 0 {
		return busyWait
	}
	return min(a.RetryAfter, longest)
}

// disable disables a webhook after a 410 response. The record refuses its waiting deliveries.
func (h *Hooks) disable(ctx context.Context, hook federation.Webhook) error {
	const why = "its address answered 410 Gone"
	if err := h.deps.Record.DisableWebhook(ctx, hook.ID, why, time.Now()); err != nil {
		return fmt.Errorf("%w: disable: %w", delivery.ErrUnnoted, err)
	}
	return &federation.RefusalError{Code: codeGone, Detail: why}
}

const codeGone = "gone"

// disableOver disables a webhook whose registration key has ended, and notifies its owner, which
// may enable it again. It returns [federation.ErrNotFound], because nothing is delivered.
func (h *Hooks) disableOver(ctx context.Context, hook federation.Webhook) error {
	const why = "the key with which it was registered has ended"
	if err := h.deps.Record.DisableWebhook(ctx, hook.ID, why, time.Now()); err != nil {
		return err
	}
	h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "webhook disabled", slog.String("network", h.networkOf(hook)),
		slog.String("link", federation.WebhookName(hook.ID)), slog.String("did", string(hook.DID)), slog.String("reason", why))
	return federation.ErrNotFound
}

const inboxNetwork = "rest"

func (h *Hooks) networkOf(hook federation.Webhook) string {
	if pusher := h.deps.Pusher(hook); pusher != nil {
		return pusher.Network()
	}
	if hook.Participant != "" {
		return agents.Link
	}
	return inboxNetwork
}

// publicError returns the error to show to the owner of a hook, without details of the gateway's
// internal network.
func publicError(err error) error {
	_, unknown := errors.AsType[*net.DNSError](err)
	_, stranger := errors.AsType[*tls.CertificateVerificationError](err)
	var slow interface{ Timeout() bool }
	switch {
	case errors.Is(err, identity.ErrNotAllowed):
		return errors.New("its address is not public")
	case unknown:
		return errors.New("its name cannot be looked up")
	case stranger:
		return errors.New("its certificate is invalid")
	case errors.As(err, &slow) && slow.Timeout():
		return errors.New("no answer in time")
	}
	return errors.New("no answer")
}

type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }
