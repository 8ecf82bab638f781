package server

import (
	"context"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/tracing"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/store/registry"
)

const scrapeTimeout = 2 * time.Second

// Collectors returns the metrics measured at each scrape, until ctx ends.
func (g *Gateway) Collectors(ctx context.Context) []prometheus.Collector {
	return []prometheus.Collector{newLinkGauges(ctx, g.links, g.deps.Record.Record), newRecordGauges(ctx, g.links, g.deps.Record.Record), g.growth.growth}
}

type linkGauges struct {
	ctx    context.Context // Collect has no context parameter
	links  *LinkSet
	record *registry.Record

	heard, rows, oldest               *prometheus.Desc
	outboxRows, outboxOldest          *prometheus.Desc
	noticeRows, noticeOldest          *prometheus.Desc
	relayRows, relayOldest, relayDead *prometheus.Desc
}

func newLinkGauges(ctx context.Context, links *LinkSet, record *registry.Record) *linkGauges {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("baton_"+name, help, []string{"network", "link"}, nil)
	}
	byPeer := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("baton_"+name, help, []string{"peer"}, nil)
	}
	return &linkGauges{
		ctx: ctx, links: links, record: record,
		heard:  desc("link_heard_seconds", "Time since the last read from a link."),
		rows:   desc("feed_rows", "Deliveries that are pending on a link."),
		oldest: desc("feed_oldest_seconds", "Age of the oldest delivery that is pending on a link; 0 for none."),

		outboxRows:   byPeer("outbox_rows", "Deliveries that another home has not receipted."),
		outboxOldest: byPeer("outbox_oldest_seconds", "Age of the oldest delivery that another home has not receipted; 0 for none."),

		noticeRows:   desc("notice_rows", "Notices that a link has not shown to their readers."),
		noticeOldest: desc("notice_oldest_seconds", "Age of the oldest notice that a link has not shown; 0 for none."),

		relayRows:   byPeer("relay_rows", "Messages and decisions pending for another registry."),
		relayOldest: byPeer("relay_oldest_seconds", "Age of the oldest of them; 0 when there is none."),
		relayDead:   byPeer("relay_dead", "Messages that could not be delivered, kept with the reason."),
	}
}

// Describe implements [prometheus.Collector].
func (g *linkGauges) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.heard, g.rows, g.oldest, g.outboxRows, g.outboxOldest, g.noticeRows, g.noticeOldest, g.relayRows, g.relayOldest, g.relayDead} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. It omits gauges if the record cannot be read.
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
		backlog, err := g.record.Backlog(ctx, s.Link.Name())
		if err != nil {
			continue
		}
		set(g.rows, float64(backlog.Rows))
		set(g.oldest, secondsSince(backlog.Oldest, now))
		if _, ok := s.Link.(bridge.Notifier); ok {
			notices, err := g.record.Backlog(ctx, bridge.ReadersOf(s.Link))
			if err != nil {
				continue
			}
			set(g.noticeRows, float64(notices.Rows))
			set(g.noticeOldest, secondsSince(notices.Oldest, now))
		}
		if s.Link.Network() == HomeNetwork {
			metrics <- prometheus.MustNewConstMetric(g.outboxRows, prometheus.GaugeValue, float64(backlog.Rows), s.Link.Name())
			metrics <- prometheus.MustNewConstMetric(g.outboxOldest, prometheus.GaugeValue, secondsSince(backlog.Oldest, now), s.Link.Name())
		}
	}
}

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

func secondsSince(of, now time.Time) float64 {
	if of.IsZero() {
		return 0
	}
	return now.Sub(of).Seconds()
}

type recordGauges struct {
	ctx                                  context.Context // Collect has no context parameter
	links                                *LinkSet
	record                               *registry.Record
	started                              time.Time
	deferred, dead, hookRows, hookOldest *prometheus.Desc
	held                                 *prometheus.Desc
}

func newRecordGauges(ctx context.Context, links *LinkSet, record *registry.Record) *recordGauges {
	return &recordGauges{
		ctx:        ctx,
		links:      links,
		record:     record,
		started:    time.Now(),
		deferred:   prometheus.NewDesc("baton_deferred", "Steps that wait until they can be judged.", []string{"network"}, nil),
		dead:       prometheus.NewDesc("baton_dead", "Dead letters: deliveries that failed permanently.", []string{"reason"}, nil),
		hookRows:   prometheus.NewDesc("baton_webhook_rows", "Pending deliveries to webhooks.", nil, nil),
		hookOldest: prometheus.NewDesc("baton_webhook_oldest_seconds", "Age of the oldest of them; 0 when there is none.", nil, nil),
		held:       prometheus.NewDesc("baton_held_seconds", "Age of the hold of a link, a home or a registry.", []string{"destination"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g *recordGauges) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.deferred, g.dead, g.hookRows, g.hookOldest, g.held} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. It omits gauges if the record cannot be read.
func (g *recordGauges) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(g.ctx, scrapeTimeout)
	defer cancel()
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if steps, err := g.record.CountDeferred(ctx); err == nil {
		for network, n := range steps {
			set(g.deferred, float64(n), network)
		}
	}
	if dead, err := g.record.CountDead(ctx); err == nil {
		for reason, n := range dead {
			set(g.dead, float64(n), string(reason))
		}
	}
	if hooks, err := g.record.WebhooksBacklog(ctx); err == nil {
		set(g.hookRows, float64(hooks.Rows))
		set(g.hookOldest, secondsSince(hooks.Oldest, time.Now()))
	}
	if held, err := g.heldSince(ctx); err == nil {
		for to, since := range held {
			set(g.held, secondsSince(since, time.Now()), to)
		}
	}
}

// A hold by command takes precedence over a mode set by an operator or the configuration.
func (g *recordGauges) heldSince(ctx context.Context) (map[string]time.Time, error) {
	held, err := g.record.Holds(ctx)
	if err != nil {
		return nil, err
	}
	modes, err := g.record.PeerModes(ctx)
	if err != nil {
		return nil, err
	}
	since := map[string]time.Time{}
	for _, o := range g.links.Entries() {
		if peer := peerOf(o); peer != nil && peer.Mode() == relay.Hold {
			since[peer.Name()] = g.started
		}
	}
	for _, m := range modes {
		if _, isHome := since[m.Domain]; isHome && m.Mode == string(relay.Hold) {
			since[m.Domain] = m.Since
		}
	}
	for _, h := range held {
		since[h.To] = h.Since
	}
	return since, nil
}

type machineGauges struct {
	folder string
	links  *LinkSet

	certificate func() *x509.Certificate
	problem     func() string

	disk, ends, refused, skew *prometheus.Desc
}

// MachineCollector returns the metrics of the machine: the disk of a folder, the certificate (nil
// for none), the problem with its renewal, and the clocks of other homes.
func (g *Gateway) MachineCollector(folder string, certificate func() *x509.Certificate, problem func() string) prometheus.Collector {
	return &machineGauges{
		folder: folder, certificate: certificate, problem: problem, links: g.links,
		disk:    prometheus.NewDesc("baton_disk_free_ratio", "Free part of the disk of home.data_dir, 0 to 1.", nil, nil),
		ends:    prometheus.NewDesc("baton_certificate_expiry_timestamp_seconds", "Unix time at which the certificate of [tls] ends.", nil, nil),
		refused: prometheus.NewDesc("baton_certificate_problem", "1 if the certificate files cannot be used, or the authority of [tls.acme] issues none; else 0.", nil, nil),
		skew:    prometheus.NewDesc("baton_peer_skew_seconds", "Difference between the clock of another home and the clock here.", []string{"peer"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g *machineGauges) Describe(descs chan<- *prometheus.Desc) {
	descs <- g.disk
	descs <- g.ends
	descs <- g.refused
	descs <- g.skew
}

// Collect implements [prometheus.Collector]. It omits gauges that cannot be measured.
func (g *machineGauges) Collect(metrics chan<- prometheus.Metric) {
	var disk unix.Statfs_t
	if err := unix.Statfs(g.folder, &disk); err == nil && disk.Blocks > 0 {
		metrics <- prometheus.MustNewConstMetric(g.disk, prometheus.GaugeValue, float64(disk.Bavail)/float64(disk.Blocks))
	}
	problem := 0.0
	if g.problem() != "" {
		problem = 1
	}
	metrics <- prometheus.MustNewConstMetric(g.refused, prometheus.GaugeValue, problem)
	if leaf := g.certificate(); leaf != nil {
		metrics <- prometheus.MustNewConstMetric(g.ends, prometheus.GaugeValue, float64(leaf.NotAfter.Unix()))
	}
	for link := range able[skewed](g.links) {
		if !link.Heard().IsZero() {
			metrics <- prometheus.MustNewConstMetric(g.skew, prometheus.GaugeValue, link.Skew().Seconds(), link.Name())
		}
	}
}

type skewed interface {
	HomeLink
	bridge.Hearer
	// Skew returns how far the local clock is ahead of the other home's clock.
	Skew() time.Duration
	// Compared returns the local time of the last clock comparison.
	Compared() time.Time
}

// measureEvery is the interval of growth measurements. At the highest measured rate of steps, a
// record grows by 4 MB in this time.
const measureEvery = 10 * time.Second

type growthWatch struct {
	growth prometheus.Gauge
	warned map[string]int // last logged percentage, by limit
}

func newGrowthWatch() *growthWatch {
	return &growthWatch{warned: map[string]int{}, growth: prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "baton", Name: "record_growth_bytes", Help: "Growth of the record within the last hour.",
	})}
}

func (g *Gateway) measureGrowth(ctx context.Context) {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.MeasureGrowth(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// MeasureGrowth measures the growth of the record, which limits the admission of new DIDs. Call it
// once before the first client is served; [Gateway.Run] repeats it.
func (g *Gateway) MeasureGrowth(ctx context.Context, now time.Time) {
	grown, err := g.deps.Record.Growth(ctx, now)
	if err != nil {
		if ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "growth of the record not measured", slog.Any("err", err))
		}
		return
	}
	g.growth.growth.Set(float64(grown))
	g.deps.Strangers.Grown(grown)
	limits := g.home.Load().Limits.Strangers
	g.warnOfLimit(ctx, "record_bytes_per_hour", grown, limits.RecordBytes)
	g.warnOfLimit(ctx, "new_dids_per_hour", int64(g.deps.Strangers.Met(now)), int64(limits.DIDs))
}

func (g *Gateway) warnOfLimit(ctx context.Context, limit string, value, most int64) {
	reached := 0
	switch {
	case most <= 0:
	case value >= most:
		reached = 100
	case value >= most/5*4:
		reached = 80
	}
	if reached > g.growth.warned[limit] {
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "limit for new DIDs nearly reached or reached; at 100 percent new DIDs are refused temporarily",
			slog.String("limit", "limits."+limit), slog.Int("percent", reached), slog.Int64("value", value), slog.Int64("most", most))
	}
	g.growth.warned[limit] = reached
}

func newMetrics(version, revision string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "baton", Name: "build_info", Help: "1, with the build as labels.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

func (s *Server) tracer() bridge.Tracer { //nolint:ireturn // a nil pointer in the interface would look like one
	if s.traces == nil {
		return nil
	}
	return s.traces
}

func (s *Server) tracesBetweenHomes() relay.Traces { //nolint:ireturn // a nil pointer in the interface would look like one
	if s.traces == nil {
		return nil
	}
	return s.traces
}

type homeRecord struct {
	*registry.Record

	names  registry.BoundNames
	links  *LinkSet
	traces *tracing.Tracer // nil records none
}

// Acquainted implements [home.Record]. A DID bound to a name by the configuration or an operator is
// known.
func (r homeRecord) Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error) {
	bound, err := r.names.Of(ctx, did)
	if err != nil || len(bound) > 0 {
		return time.Time{}, err == nil, err
	}
	return r.Record.Acquainted(ctx, did)
}

// Append implements [home.Record]. A filing includes the first attempts of links that show a step
// at most once. The attempts are counted as pending before the append, because these links may read
// their outbox right after it.
func (r homeRecord) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	start := time.Now()
	r.links.expect(f.Event.ID, f.Once)
	entry, err := r.Record.Append(ctx, f)
	if r.traces != nil && (err != nil || entry.Filed.Equal(f.Filed)) { // otherwise, it was already filed
		r.traces.Filed(ctx, f, err, start)
	}
	return entry, err
}
