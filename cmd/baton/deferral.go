package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/deferral"
)

// judgeEvery is how often it is looked for steps that can be judged again: a key that
// arrived is noticed as soon.
const judgeEvery = time.Second

// newDeferral returns what keeps the steps that the home cannot judge yet. The home and
// the limits are those of the moment.
func (p *program) newDeferral() *deferral.Deferral {
	return deferral.New(deferral.Config{
		Rows:   p.record,
		Judge:  func() deferral.Judge { return judge{p.gateway} },
		Limits: func() federation.DeferralLimits { return *p.deferrals.Load() },
		Seek:   func(ctx context.Context, ev federation.Event) { p.gateway.seekKey(ctx, ev) },
		Ended:  func(ctx context.Context, r deferral.Ruling) error { return p.gateway.ruled(ctx, r, time.Now()) },
	})
}

// judgeAgain judges what waits for keys until ctx ends: at once after the start, and
// then every second.
func (p *program) judgeAgain(ctx context.Context) {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		more, err := p.deferral.Retry(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelError, "steps not judged again", slog.Any("err", err))
		}
		if more {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// ruled does for a step that waited for a key what is done for any that is judged, and
// tells its sender where it was refused.
func (g *submitter) ruled(ctx context.Context, r deferral.Ruling, now time.Time) error {
	var err error // stays nil where the refusal is
	if r.Refused != nil {
		err = r.Refused
		if err := g.record.Notify(ctx, refusalOf(r, now)); err != nil {
			return err
		}
	}
	if r.Expired {
		g.metrics.Outcomes.WithLabelValues(r.Step.Event.Arrival.Network, "expired").Inc()
	}
	g.note(ctx, r.Step.Event, r.Judgement, err)
	g.wake(r.Judgement, err)
	g.follow(ctx, r.Judgement, err)
	return nil
}

// refusalOf returns what the sender of a step is told that was refused after it had
// waited. Where the signature did not hold, nobody is known to have sent it: who is told
// is whoever has the name that it came under.
func refusalOf(r deferral.Ruling, now time.Time) federation.Notice {
	ev := r.Step.Event
	if r.Judgement.Verdict != federation.Valid {
		ev.From, ev.For = "", ""
	}
	return noticeOf(ev, r.Refused, now)
}

// noticeOf returns what the sender of a step is told that was refused later than it was
// taken.
func noticeOf(ev federation.Event, refused *federation.RefusalError, now time.Time) federation.Notice {
	return federation.Notice{
		Kind: federation.NoticeRefused, Event: ev, Code: string(refused.Code), Why: refused.Sentence(), At: now,
	}
}

// deferredGauge tells how many steps wait for keys at the moment of a scrape. It
// implements [prometheus.Collector].
type deferredGauge struct {
	record federation.Deferrals
	steps  *prometheus.Desc
}

func newDeferredGauge(record federation.Deferrals) deferredGauge {
	return deferredGauge{record: record, steps: prometheus.NewDesc("baton_deferred", "Steps that wait until they can be judged.", []string{"network"}, nil)}
}

// Describe implements [prometheus.Collector].
func (g deferredGauge) Describe(descs chan<- *prometheus.Desc) { descs <- g.steps }

// Collect implements [prometheus.Collector]. What the record cannot say now is not
// there.
func (g deferredGauge) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counts, err := g.record.CountDeferred(ctx)
	if err != nil {
		return
	}
	for network, steps := range counts {
		metrics <- prometheus.MustNewConstMetric(g.steps, prometheus.GaugeValue, float64(steps), network)
	}
}
