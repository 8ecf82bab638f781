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

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
)

// When a delivery is tried again.
const (
	firstWait = time.Minute
	maxWait   = 16 * time.Hour
	turnWait  = time.Second // if the host must not be called yet
	linkWait  = time.Minute // when no link posts for this agent
)

// waitAfter returns how long to wait after the n-th attempt.
func waitAfter(n int) time.Duration {
	wait := firstWait
	for ; n > 1 && wait < maxWait; n-- {
		wait *= 2
	}
	return min(wait, maxWait)
}

// envelope is what is posted.
//
// spec: Standard Webhooks 1.0.0 "Payload structure"
type envelope struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"` // when it was queued
	Data      json.RawMessage `json:"data"`
}

// ID returns the id under which something is posted to hooks of one inbox, the same for
// each attempt. The number of the place in the inbox is in it, since two signers may use
// one id.
func ID(h federation.Webhook, p federation.Push) string {
	owner, place := string(h.DID), p.Entry.Number
	switch {
	case h.Participant != "":
		owner = h.Participant
		if p.Content != nil { // nil where the record cannot read it
			place = p.Content.Place()
		}
	case p.Notice.Kind != "": // one hook may be disabled several times
		place = uint64(p.Item) //nolint:gosec // G115: items are counted from 1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", owner, p.Ref(), place))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// post makes one attempt. Its error ends the turn: it is an error of the record, or a
// [turnEndedError]. An attempt is not counted if it only came too soon after another one, as called
// reports.
func (h *Hooks) post(ctx context.Context, hook federation.Webhook, p federation.Push, called bool) error {
	if p.Broken != "" {
		return h.giveUp(ctx, hook, p, federation.DeadBroken, p.Broken)
	}
	pusher := h.deps.Pusher(hook)
	if pusher == nil {
		return &turnEndedError{wait: linkWait}
	}
	posts, err := h.posts(ctx, pusher, hook, p)
	if errors.Is(err, bridge.ErrBroken) {
		return h.giveUp(ctx, hook, p, federation.DeadBroken, err.Error())
	}
	if err != nil {
		return fmt.Errorf("write for hook: %w", err)
	}
	answer, err := h.call(ctx, hook.URL, posts)
	switch {
	case ctx.Err() != nil: // the gateway ends before the result is known: the attempt is repeated
		return &turnEndedError{}
	case errors.Is(err, identity.ErrTurn):
		return &turnEndedError{wait: turnWait}
	case err == nil && answer.Status == http.StatusGone:
		return h.disable(ctx, hook, p)
	case err == nil && taken(answer):
		return h.taken(ctx, hook, p, pusher)
	case err == nil:
		err = &statusError{answer.Status}
	}
	wait := pause(answer)
	if wait > 0 && called {
		return &turnEndedError{wait: wait}
	}
	if err := h.failed(ctx, hook, p, err, answer.RetryAfter); err != nil || wait <= 0 {
		return err
	}
	return &turnEndedError{wait: wait, counted: true}
}

// posts returns the posts that a push is, signed now where they have the form of Standard
// Webhooks.
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

// call makes posts until one of them is not taken, and returns the last answer. No posts are
// taken.
func (h *Hooks) call(ctx context.Context, address string, posts []bridge.Post) (identity.Answer, error) {
	answer := identity.Answer{Status: http.StatusNoContent}
	for _, post := range posts {
		var err error
		if answer, err = h.deps.Outside.Call(ctx, address, post.Header, post.Body); err != nil || !taken(answer) {
			return answer, err
		}
	}
	return answer, nil
}

// taken reports whether the address took the post.
func taken(a identity.Answer) bool { return a.Status >= 200 && a.Status < 300 }

// pause returns how long not to call the address after an answer.
//
// spec: RFC 6585 §4, RFC 9110 §10.2.3
func pause(a identity.Answer) time.Duration {
	if a.Status == http.StatusTooManyRequests && a.RetryAfter <= 0 {
		return firstWait
	}
	return min(a.RetryAfter, maxWait)
}

// taken notes that a hook has taken a push.
func (h *Hooks) taken(ctx context.Context, hook federation.Webhook, p federation.Push, pusher bridge.Pusher) error {
	ctx, now := context.WithoutCancel(ctx), time.Now() // also at the end of the gateway: it is not to be posted again
	if err := pusher.Taken(ctx, hook, p); err != nil {
		return err
	}
	if err := h.deps.Record.PushEnded(ctx, hook.ID, p.Item, federation.Settlement{At: now}); err != nil {
		return err
	}
	h.deps.Metrics.Outcomes.WithLabelValues(h.networkOf(hook), string(federation.DeliveryDelivered)).Inc()
	h.deps.Metrics.Deliver.WithLabelValues(h.networkOf(hook)).Observe(now.Sub(p.Queued).Seconds())
	return nil
}

// failed notes an attempt that came to nothing, and gives up after the last one. A host
// that says when to come again is not asked before that.
func (h *Hooks) failed(ctx context.Context, hook federation.Webhook, p federation.Push, err error, after time.Duration) error {
	n, now := p.Attempt+1, time.Now()
	if n >= h.cfg.MaxAttempts {
		return h.giveUp(ctx, hook, p, federation.DeadFailed, told(err))
	}
	next := now.Add(min(max(waitAfter(n), after), maxWait))
	h.deps.Log.LogAttrs(ctx, slog.LevelInfo, "webhook waits", append(h.attrs(hook, p), slog.Int("attempt", n), slog.Any("err", err))...)
	return h.deps.Record.PushFailed(ctx, hook.ID, p.Item, federation.Failure{Reason: told(err), At: now, Next: next})
}

// giveUp ends a push as a dead letter.
func (h *Hooks) giveUp(ctx context.Context, hook federation.Webhook, p federation.Push, reason federation.DeadReason, why string) error {
	how := federation.Settlement{State: federation.DeliveryDead, Dead: reason, Why: why, At: time.Now()}
	if err := h.deps.Record.PushEnded(ctx, hook.ID, p.Item, how); err != nil {
		return err
	}
	h.ended(ctx, hook, p, how)
	return nil
}

// disable disables a webhook whose address answered 410.
func (h *Hooks) disable(ctx context.Context, hook federation.Webhook, p federation.Push) error {
	how := federation.Settlement{State: federation.DeliveryRefused, Why: "its address answered 410 Gone", At: time.Now()}
	if err := h.deps.Record.DisableWebhook(ctx, hook.ID, how.Why, how.At); err != nil {
		return err
	}
	h.ended(ctx, hook, p, how)
	return &turnEndedError{}
}

// disableOver disables a webhook at its end and notifies its owner, which may enable it again.
func (h *Hooks) disableOver(ctx context.Context, hook federation.Webhook) error {
	now := time.Now()
	if !hook.Over(now) {
		return nil
	}
	const why = "the key with which it was registered has ended"
	if err := h.deps.Record.DisableWebhook(ctx, hook.ID, why, now); err != nil {
		return err
	}
	h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "webhook disabled", slog.String("network", h.networkOf(hook)),
		slog.String("link", federation.WebhookName(hook.ID)), slog.String("did", string(hook.DID)), slog.String("reason", why))
	return &turnEndedError{}
}

func (h *Hooks) ended(ctx context.Context, hook federation.Webhook, p federation.Push, how federation.Settlement) {
	h.deps.Metrics.Outcomes.WithLabelValues(h.networkOf(hook), string(how.State)).Inc()
	h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "webhook delivery ended", append(h.attrs(hook, p),
		slog.String("outcome", string(how.State)), slog.Int("attempt", p.Attempt+1), slog.String("reason", how.Why))...)
}

// inboxNetwork is the label of the network of DIDs that read their inbox here.
const inboxNetwork = "rest"

// networkOf returns the label of the network whose people a hook is for.
func (h *Hooks) networkOf(hook federation.Webhook) string {
	if pusher := h.deps.Pusher(hook); pusher != nil {
		return pusher.Network()
	}
	if hook.Participant != "" {
		return agents.Link
	}
	return inboxNetwork
}

// told returns what the owner of a hook may know of an attempt that failed: what the
// network of the gateway looks like from inside is not among it.
func told(err error) string {
	_, unknown := errors.AsType[*net.DNSError](err)
	_, stranger := errors.AsType[*tls.CertificateVerificationError](err)
	status, answered := errors.AsType[*statusError](err)
	var slow interface{ Timeout() bool }
	switch {
	case answered:
		return status.Error()
	case errors.Is(err, identity.ErrNotAllowed):
		return "its address is not public"
	case unknown:
		return "its name cannot be looked up"
	case stranger:
		return "its certificate is not good"
	case errors.As(err, &slow) && slow.Timeout():
		return "no answer in time"
	}
	return "no answer"
}

// statusError is an answer that is no delivery.
type statusError struct{ status int }

// Error implements error.
func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

func (h *Hooks) attrs(hook federation.Webhook, p federation.Push) []slog.Attr {
	return []slog.Attr{
		slog.String("network", h.networkOf(hook)), slog.String("link", federation.WebhookName(hook.ID)), slog.String("did", string(hook.DID)),
		slog.String("event_id", p.Ref()), slog.String("handoff_id", p.Handoff().String()),
	}
}
