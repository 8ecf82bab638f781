package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// measureEvery is how often the growth of the record is measured. At the highest measured rate of steps,
// a record grows by 4 MB between two measurements.
const measureEvery = 10 * time.Second

// growthWatch compares the growth of the record and the number of newcomers with their
// limits.
type growthWatch struct {
	growth prometheus.Gauge
	warned map[string]int // percent of a limit that was logged, by its key
}

func newGrowthWatch() *growthWatch {
	return &growthWatch{warned: map[string]int{}, growth: prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "baton", Name: "record_growth_bytes", Help: "Growth of the record within the last hour.",
	})}
}

// measureGrowth calls [Gateway.MeasureGrowth] every ten seconds, until ctx ends.
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

// MeasureGrowth measures the growth of the record, which limits the admission of new DIDs. Call it once
// before the first client is served; [Gateway.Run] repeats it.
func (g *Gateway) MeasureGrowth(ctx context.Context, now time.Time) {
	grown, err := g.deps.Growth.Growth(ctx, now)
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

// warnOfLimit writes one line when a limit is nearly reached, and one when it is.
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
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "limit for new DIDs nearly reached or reached; at 100 percent they are told to come later",
			slog.String("limit", "limits."+limit), slog.Int("percent", reached), slog.Int64("value", value), slog.Int64("most", most))
	}
	g.growth.warned[limit] = reached
}
