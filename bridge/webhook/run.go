package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
)

// Run calls hooks as deliveries become due, until ctx ends and all calls have returned.
func (h *Hooks) Run(ctx context.Context) {
	wake, stop := h.deps.PubSub.Subscribe(bridge.WebhooksTopic)
	defer stop()
	pool := delivery.Pool{
		Kind: federation.ToWebhook, Policy: h.policy(), Rows: h.deps.Record.Rows(), Open: h.open, Log: h.deps.Log,
		Fault: func(ctx context.Context, err error) { h.deps.Metrics.Fault(ctx, h.deps.Log, "webhook", err) },
	}
	pool.Run(ctx, wake)
}

func (h *Hooks) policy() delivery.Policy { return delivery.ToWebhook(h.cfg.MaxAttempts, h.cfg.Timeout) }

// open disables a hook whose registration key has ended.
func (h *Hooks) open(ctx context.Context, due federation.Destination) (delivery.Destination, error) {
	var id federation.WebhookID
	if err := id.UnmarshalText([]byte(strings.TrimPrefix(due.Name, federation.WebhookLink+"/"))); err != nil {
		return delivery.Destination{}, fmt.Errorf("read name of webhook %q: %w", due.Name, err)
	}
	hook, err := h.deps.Record.Webhook(ctx, id)
	if err != nil {
		return delivery.Destination{}, err
	}
	if hook.Over(time.Now()) {
		return delivery.Destination{}, h.disableOver(ctx, hook)
	}
	return delivery.Destination{
		Name: due.Name, Policy: h.policy(), Pace: delivery.NewPace(0),
		Log:     h.deps.Log.With(slog.String("network", h.networkOf(hook)), slog.String("link", due.Name), slog.String("did", string(hook.DID))),
		Deliver: func(ctx context.Context, d federation.Delivery) error { return h.deliver(ctx, hook, *d.Push) },
		Ended: func(_ context.Context, d federation.Delivery, _ int, how federation.Settlement) {
			h.deps.Metrics.Outcomes.WithLabelValues(h.networkOf(hook), string(how.Outcome())).Inc()
			if how.Outcome() == federation.DeliveryDelivered {
				h.deps.Metrics.Deliver.WithLabelValues(h.networkOf(hook)).Observe(how.At.Sub(d.Queued).Seconds())
			}
		},
	}, nil
}
