package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/federation"
	"baton/federation/identity"
)

// scrapeTimeout bounds what one scrape asks the record.
const scrapeTimeout = 2 * time.Second

// linkGauges tells how links and their feeds stand at the moment of a scrape. It
// implements [prometheus.Collector].
type linkGauges struct {
	fleet  *gateway.LinkSet
	record federation.Deliveries

	heard, rows, oldest               *prometheus.Desc
	relayRows, relayOldest, relayDead *prometheus.Desc
}

func newLinkGauges(f *gateway.LinkSet, record federation.Deliveries) *linkGauges {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("baton_"+name, help, []string{"network", "link"}, nil)
	}
	byPeer := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("baton_"+name, help, []string{"peer"}, nil)
	}
	return &linkGauges{
		fleet: f, record: record,
		heard:  desc("link_heard_seconds", "Age of the last thing read from a link."),
		rows:   desc("feed_rows", "Steps that a link has still to deliver."),
		oldest: desc("feed_oldest_seconds", "Age of the oldest step that a link has still to deliver; 0 when there is none."),

		relayRows:   byPeer("relay_rows", "Messages and decisions that another registry has still to take."),
		relayOldest: byPeer("relay_oldest_seconds", "Age of the oldest of them; 0 when there is none."),
		relayDead:   byPeer("relay_dead", "Those that were given up, and are kept with the reason."),
	}
}

// Describe implements [prometheus.Collector].
func (g *linkGauges) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.heard, g.rows, g.oldest, g.relayRows, g.relayOldest, g.relayDead} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. What the record cannot say now is not
// there.
func (g *linkGauges) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	now := time.Now()
	for _, s := range g.fleet.Statuses() {
		tell := func(d *prometheus.Desc, value float64) {
			metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, s.Link.Network(), s.Link.Name())
		}
		if debtor, ok := s.Link.(bridge.Debtor); ok {
			g.collectOwed(ctx, debtor, metrics, now)
		}
		if hearer, ok := s.Link.(bridge.Hearer); ok && !hearer.Heard().IsZero() {
			tell(g.heard, now.Sub(hearer.Heard()).Seconds())
		}
		backlog, err := g.record.Backlog(ctx, s.Link.Name())
		if err != nil {
			continue
		}
		tell(g.rows, float64(backlog.Rows))
		tell(g.oldest, secondsSince(backlog.Oldest, now))
	}
}

// collectOwed tells what a link owes to peers of its own.
func (g *linkGauges) collectOwed(ctx context.Context, d bridge.Debtor, metrics chan<- prometheus.Metric, now time.Time) {
	owed, err := d.Owes(ctx)
	if err != nil {
		return
	}
	for _, b := range owed {
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

// timedDirectory counts how long it takes to resolve DIDs. It implements
// [identity.Refresher].
type timedDirectory struct {
	identity.Refresher

	seconds *prometheus.HistogramVec // method outcome
}

func newResolveSeconds(reg prometheus.Registerer) *prometheus.HistogramVec {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "baton", Name: "did_resolve_seconds", Help: "Time to resolve a DID, from memory or from afar.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 8, 8), // 10 µs, a did:key, to 21 s, beyond every timeout
	}, []string{"method", "outcome"})
	reg.MustRegister(seconds)
	return seconds
}

// Resolve implements [federation.Directory].
func (d timedDirectory) Resolve(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := d.Refresher.Resolve(ctx, did, now)
	d.count(did, begun, err)
	return document, err
}

// Refresh implements [identity.Refresher].
func (d timedDirectory) Refresh(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := d.Refresher.Refresh(ctx, did, now)
	d.count(did, begun, err)
	return document, err
}

func (d timedDirectory) count(did federation.DID, begun time.Time, err error) {
	if errors.Is(err, identity.ErrNotAtHand) {
		return // the lookup that follows is counted
	}
	method := did.Method()
	if !slices.Contains([]string{"key", "web", "plc"}, method) {
		method = "other" // anybody may invent one
	}
	d.seconds.WithLabelValues(method, resolved(err).String()).Observe(time.Since(begun).Seconds())
}

// resolved says what an attempt to resolve a DID came to.
func resolved(err error) federation.Verdict {
	if err == nil {
		return federation.Valid
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		return federation.Unverifiable
	}
	return federation.Invalid
}
