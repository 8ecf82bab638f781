package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
)

// watchEvery is how often it is looked what waits for long.
const watchEvery = 5 * time.Second

// watchBatch bounds what one write notes about deliveries.
const watchBatch = 128

// watchFeeds tells of deliveries that take long, and gives those up that waited for as
// long as the configuration says, until ctx ends.
func (p *program) watchFeeds(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := p.watchOnce(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelError, "deliveries not looked at", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (p *program) watchOnce(ctx context.Context, now time.Time) error {
	_, err := all(watchBatch, func(limit int) (int, error) { return p.record.Delay(ctx, now.Add(-federation.DelayNotice), now, limit) })
	if err != nil {
		return err
	}
	keep := p.retention.Load().Undelivered
	if keep == 0 {
		return nil
	}
	gone, err := all(watchBatch, func(limit int) (int, error) { return p.record.Expire(ctx, now.Add(-keep), now, limit) })
	if gone > 0 {
		p.counters.Outcomes.WithLabelValues(homeNetwork, string(federation.DeliveryDead)).Add(float64(gone))
		p.log.LogAttrs(ctx, slog.LevelWarn, "deliveries given up", slog.Int("rows", gone), slog.String("reason", string(federation.DeadExpired)))
	}
	return err
}

// homeNetwork is the label of what the home does by itself.
const homeNetwork = "home"

// all calls what does up to so many at once until there is no more to do.
func all(limit int, batch func(limit int) (int, error)) (done int, err error) {
	for {
		n, err := batch(limit)
		done += n
		if err != nil || n < limit {
			return done, err
		}
	}
}

// deadGauge tells how many dead letters there are at the moment of a scrape. It
// implements [prometheus.Collector].
type deadGauge struct {
	record federation.DeadLetters
	desc   *prometheus.Desc
}

func newDeadGauge(record federation.DeadLetters) *deadGauge {
	return &deadGauge{record: record, desc: prometheus.NewDesc("baton_dead", "Dead letters: deliveries that were given up.", []string{"reason"}, nil)}
}

// Describe implements [prometheus.Collector].
func (g *deadGauge) Describe(descs chan<- *prometheus.Desc) { descs <- g.desc }

// Collect implements [prometheus.Collector]. What the record cannot say now is not
// there.
func (g *deadGauge) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counts, err := g.record.CountDead(ctx)
	if err != nil {
		return
	}
	for reason, n := range counts {
		metrics <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n), string(reason))
	}
}
