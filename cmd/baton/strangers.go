package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/bridge"
	"baton/configs"
	"baton/federation"
	"baton/federation/home"
)

// measureEvery is how often the growth of the record is measured. At the highest rate of
// steps that was measured, a record grows by 4 MB in between.
const measureEvery = 10 * time.Second

// maxSeeded bounds the newcomers that are counted on from before a restart.
const maxSeeded = 1 << 16

// strangerLimits returns what holds for DIDs that the record has not known for long.
func strangerLimits(file *configs.File) home.StrangerLimits {
	return home.StrangerLimits{
		DIDs: file.Limits.NewDIDsPerHour, PerAddress: file.Limits.NewDIDsPerAddressPerHour, RecordBytes: file.Limits.RecordBytesPerHour,
	}
}

// acquaintances knows the DIDs that the record knows, or that the configuration binds to a
// name.
type acquaintances struct {
	federation.Newcomers

	names names
}

// Acquainted implements [home.Acquaintances].
func (a acquaintances) Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error) {
	bound, err := a.names.Of(ctx, did)
	if err != nil || len(bound) > 0 {
		return time.Time{}, err == nil, err
	}
	return a.Newcomers.Acquainted(ctx, did)
}

// strangers lets networks ask the home about DIDs that come without a step.
type strangers struct{ gateway *submitter }

// Admit implements [airc.Strangers].
func (s strangers) Admit(ctx context.Context, did federation.DID, now time.Time) error {
	_, err := s.gateway.home.Load().Admit(ctx, did, addressFrom(ctx), now)
	s.gateway.countStranger(err)
	return err
}

// Meet implements [airc.Strangers].
func (s strangers) Meet(ctx context.Context, did federation.DID, now time.Time) error {
	return s.gateway.home.Load().Meet(ctx, did, addressFrom(ctx), now)
}

// addressFrom returns the address of a client as an Arrival has it, "" where it is not known.
func addressFrom(ctx context.Context) string {
	if from := bridge.NetworkFrom(ctx); from.IsValid() {
		return from.String()
	}
	return ""
}

// countStranger counts an error that told a stranger to come later, and reports whether it
// is one.
func (g *submitter) countStranger(err error) bool {
	stranger, ok := errors.AsType[*federation.StrangerError](err)
	if ok {
		g.metrics.Strangers.WithLabelValues(string(stranger.Reason)).Inc()
	}
	return ok
}

// storeContext keeps a context that an agent uploads, unless it is a stranger that has to
// come later.
func (p *program) storeContext(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error) {
	if err := (strangers{p.gateway}).Admit(ctx, owner, time.Now()); err != nil {
		return federation.Blob{}, err
	}
	return p.contexts().Store(ctx, owner, content)
}

// seedStrangers counts on from the newcomers of before the start. Their addresses are not
// in the record, and so each address begins with none.
func (p *program) seedStrangers(ctx context.Context, now time.Time) error {
	met, err := p.record.MetSince(ctx, now.Add(-federation.AcquaintanceAge), maxSeeded)
	for _, each := range met {
		p.strangers.Count(each.DID, "", each.Met)
	}
	return err
}

// watch is what the growth of the record and the number of newcomers are measured with.
type watch struct {
	p      *program
	growth prometheus.Gauge
	told   map[string]int // percent of a limit that the log has, by its key
}

func newWatch(p *program) *watch {
	w := &watch{p: p, told: map[string]int{}, growth: prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "baton", Name: "record_growth_bytes", Help: "Growth of the record within the last hour.",
	})}
	p.metrics.MustRegister(w.growth)
	return w
}

// run measures every few seconds, until ctx ends.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.once(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) once(ctx context.Context, now time.Time) {
	grown, err := w.p.record.Growth(ctx, now)
	if err != nil {
		if ctx.Err() == nil {
			w.p.log.LogAttrs(ctx, slog.LevelError, "growth of the record not measured", slog.Any("err", err))
		}
		return
	}
	w.growth.Set(float64(grown))
	w.p.strangers.Grown(grown)
	limits := w.p.gateway.home.Load().Limits.Strangers
	w.warn(ctx, "record_bytes_per_hour", grown, limits.RecordBytes)
	w.warn(ctx, "new_dids_per_hour", int64(w.p.strangers.Met(now)), int64(limits.DIDs))
}

// warn writes one line when a limit is nearly reached, and one when it is.
func (w *watch) warn(ctx context.Context, limit string, value, most int64) {
	reached := 0
	switch {
	case most <= 0:
	case value >= most:
		reached = 100
	case value >= most/5*4:
		reached = 80
	}
	if reached > w.told[limit] {
		w.p.log.LogAttrs(ctx, slog.LevelWarn, "limit for new DIDs nearly reached or reached; at 100 percent they are told to come later",
			slog.String("limit", "limits."+limit), slog.Int("percent", reached), slog.Int64("value", value), slog.Int64("most", most))
	}
	w.told[limit] = reached
}
