package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/bridge"
)

// scrapeTimeout bounds how long one scrape reads the record.
const scrapeTimeout = 2 * time.Second

// Collectors returns the metrics of the gateway that are measured at each scrape, until ctx
// ends.
func (g *Gateway) Collectors(ctx context.Context) []prometheus.Collector {
	return []prometheus.Collector{newLinkGauges(ctx, g.links, g.deps.Counts), newRecordGauges(ctx, g.deps.Counts), g.growth.growth}
}

// linkGauges measures links and their outboxes at the moment of a scrape. It implements
// [prometheus.Collector].
type linkGauges struct {
	ctx    context.Context // a Collector has no parameter for it
	links  *LinkSet
	counts Counts

	heard, rows, oldest               *prometheus.Desc
	outboxRows, outboxOldest          *prometheus.Desc
	relayRows, relayOldest, relayDead *prometheus.Desc
}

func newLinkGauges(ctx context.Context, links *LinkSet, counts Counts) *linkGauges {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("baton_"+name, help, []string{"network", "link"}, nil)
	}
	byPeer := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("baton_"+name, help, []string{"peer"}, nil)
	}
	return &linkGauges{
		ctx: ctx, links: links, counts: counts,
		heard:  desc("link_heard_seconds", "Age of the last thing read from a link."),
		rows:   desc("feed_rows", "Deliveries that are pending on a link."),
		oldest: desc("feed_oldest_seconds", "Age of the oldest delivery that is pending on a link; 0 for none."),

		outboxRows:   byPeer("outbox_rows", "Deliveries that another home has not receipted."),
		outboxOldest: byPeer("outbox_oldest_seconds", "Age of the oldest delivery that another home has not receipted; 0 for none."),

		relayRows:   byPeer("relay_rows", "Messages and decisions that another registry has still to take."),
		relayOldest: byPeer("relay_oldest_seconds", "Age of the oldest of them; 0 when there is none."),
		relayDead:   byPeer("relay_dead", "Messages that were given up, and are kept with the reason."),
	}
}

// Describe implements [prometheus.Collector].
func (g *linkGauges) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.heard, g.rows, g.oldest, g.outboxRows, g.outboxOldest, g.relayRows, g.relayOldest, g.relayDead} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. A gauge that the record cannot read now is
// missing.
func (g *linkGauges) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(g.ctx, scrapeTimeout)
	defer cancel()
	now := time.Now()
	for _, s := range g.links.Statuses() {
		set := func(d *prometheus.Desc, value float64) {
			metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, s.Link.Network(), s.Link.Name())
		}
		if peered, ok := s.Link.(bridge.Peered); ok {
			g.collectPeers(ctx, peered, metrics, now)
		}
		if hearer, ok := s.Link.(bridge.Hearer); ok && !hearer.Heard().IsZero() {
			set(g.heard, now.Sub(hearer.Heard()).Seconds())
		}
		backlog, err := g.counts.Backlog(ctx, s.Link.Name())
		if err != nil {
			continue
		}
		set(g.rows, float64(backlog.Rows))
		set(g.oldest, secondsSince(backlog.Oldest, now))
		if s.Link.Network() == HomeNetwork {
			metrics <- prometheus.MustNewConstMetric(g.outboxRows, prometheus.GaugeValue, float64(backlog.Rows), s.Link.Name())
			metrics <- prometheus.MustNewConstMetric(g.outboxOldest, prometheus.GaugeValue, secondsSince(backlog.Oldest, now), s.Link.Name())
		}
	}
}

// collectPeers measures what waits for the peers that a link has.
func (g *linkGauges) collectPeers(ctx context.Context, d bridge.Peered, metrics chan<- prometheus.Metric, now time.Time) {
	backlogs, err := d.Backlogs(ctx)
	if err != nil {
		return
	}
	for _, b := range backlogs {
		for desc, value := range map[*prometheus.Desc]float64{
			g.relayRows: float64(b.Rows), g.relayOldest: secondsSince(b.Oldest, now), g.relayDead: float64(b.Dead),
		} {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, b.Peer)
		}
	}
}

// secondsSince returns the seconds since a time, 0 since the zero time.
func secondsSince(of, now time.Time) float64 {
	if of.IsZero() {
		return 0
	}
	return now.Sub(of).Seconds()
}

// recordGauges count what waits in the record at the moment of a scrape. It implements
// [prometheus.Collector].
type recordGauges struct {
	ctx                                  context.Context // a Collector has no parameter for it
	counts                               Counts
	deferred, dead, hookRows, hookOldest *prometheus.Desc
}

func newRecordGauges(ctx context.Context, counts Counts) *recordGauges {
	return &recordGauges{
		ctx:        ctx,
		counts:     counts,
		deferred:   prometheus.NewDesc("baton_deferred", "Steps that wait until they can be judged.", []string{"network"}, nil),
		dead:       prometheus.NewDesc("baton_dead", "Dead letters: deliveries that were given up.", []string{"reason"}, nil),
		hookRows:   prometheus.NewDesc("baton_webhook_rows", "Deliveries to webhooks that are still to be made.", nil, nil),
		hookOldest: prometheus.NewDesc("baton_webhook_oldest_seconds", "Age of the oldest of them; 0 when there is none.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g *recordGauges) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.deferred, g.dead, g.hookRows, g.hookOldest} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. A gauge that the record cannot read now is
// missing.
func (g *recordGauges) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(g.ctx, scrapeTimeout)
	defer cancel()
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if steps, err := g.counts.CountDeferred(ctx); err == nil {
		for network, n := range steps {
			set(g.deferred, float64(n), network)
		}
	}
	if dead, err := g.counts.CountDead(ctx); err == nil {
		for reason, n := range dead {
			set(g.dead, float64(n), string(reason))
		}
	}
	if hooks, err := g.counts.WebhooksBacklog(ctx); err == nil {
		set(g.hookRows, float64(hooks.Rows))
		set(g.hookOldest, secondsSince(hooks.Oldest, time.Now()))
	}
}
