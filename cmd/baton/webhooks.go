package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/bridge"
	"baton/bridge/webhook"
	"baton/federation"
	"baton/federation/identity"
)

// newHooks returns what posts to the addresses of agents, or nil where the configuration
// has no webhooks.
func (p *program) newHooks() *webhook.Hooks {
	if !p.file.Webhooks.Enabled {
		return nil
	}
	return webhook.New(webhook.Config{
		MaxPerDID: p.file.Webhooks.MaxPerDID, MaxAttempts: p.file.Webhooks.MaxAttempts, Timeout: p.file.Fetch.Timeout,
	}, webhook.Deps{
		Record: p.record, Outside: outside{p.client}, Key: p.keyring.Token(), Pushers: pushers{p.gateway.fleet},
		Wakes: p.relay, Metrics: p.counters, Log: p.log,
	})
}

// pushers implements [webhook.Pushers].
type pushers struct{ *fleet }

// Pusher implements [webhook.Pushers].
func (p pushers) Pusher(h federation.Hook) bridge.Pusher { return p.pusher(h) } //nolint:ireturn // links are of many types

// outside calls strangers through the guarded client.
type outside struct{ client *identity.Client }

var _ webhook.Outside = outside{}

// Callable implements [webhook.Outside].
func (o outside) Callable(ctx context.Context, address string) error {
	return inWebhook(o.client.Callable(ctx, address))
}

// Call implements [webhook.Outside].
func (o outside) Call(ctx context.Context, address string, header http.Header, body []byte) (webhook.Answer, error) {
	answer, err := o.client.Call(ctx, address, header, body)
	return webhook.Answer{Status: answer.Status, RetryAfter: answer.RetryAfter}, inWebhook(err)
}

// inWebhook says in the words of package webhook why somebody is not called.
func inWebhook(err error) error {
	switch {
	case errors.Is(err, identity.ErrNotAllowed):
		return errors.Join(webhook.ErrAddress, err)
	case errors.Is(err, identity.ErrTurn):
		return errors.Join(webhook.ErrTurn, err)
	}
	return err
}

// pusher returns the link that writes what a hook is posted, nil while there is none.
func (f *fleet) pusher(h federation.Hook) bridge.Pusher { //nolint:ireturn // links are of many types
	for _, running := range f.current.Load().all {
		pusher, ok := running.link.(bridge.Pusher)
		if ok && (running.link.Name() == federation.RegistryLink) == (h.Agent != "") {
			return pusher
		}
	}
	return nil
}

// hookGauges tells what waits for the addresses of agents at the moment of a scrape, over
// all: whether somebody's own server is there is their affair, and no row of a feed. It
// implements [prometheus.Collector].
type hookGauges struct {
	record       federation.Hooks
	rows, oldest *prometheus.Desc
}

func newHookGauges(record federation.Hooks) *hookGauges {
	return &hookGauges{
		record: record,
		rows:   prometheus.NewDesc("baton_webhook_rows", "Deliveries to webhooks that are still to be made.", nil, nil),
		oldest: prometheus.NewDesc("baton_webhook_oldest_seconds", "Age of the oldest of them; 0 when there is none.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g *hookGauges) Describe(descs chan<- *prometheus.Desc) {
	descs <- g.rows
	descs <- g.oldest
}

// Collect implements [prometheus.Collector]. What the record cannot say now is not
// there.
func (g *hookGauges) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	backlog, err := g.record.HooksBacklog(ctx)
	if err != nil {
		return
	}
	metrics <- prometheus.MustNewConstMetric(g.rows, prometheus.GaugeValue, float64(backlog.Rows))
	metrics <- prometheus.MustNewConstMetric(g.oldest, prometheus.GaugeValue, secondsSince(backlog.Oldest, time.Now()))
}
