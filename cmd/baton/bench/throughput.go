package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

const turns = 4

func reported(callers int) bool { return callers == 1 || callers == 64 || callers == 256 }

// measureThroughput measures the signed steps per second filed over HTTP, for rising numbers of
// callers, and the latency of each step.
func (r *run) measureThroughput(ctx context.Context) (err error) {
	server, err := r.openBare(ctx, "bare")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	g, err := r.openGateway(ctx, "throughput")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	r.measureIdle(g)
	callers, err := logAllIn(ctx, g.public, slices.Max(r.Callers))
	if err != nil {
		return err
	}
	filed, verifies := 0, 0.0
	rates, waits := r.newPlots()
	for _, n := range r.Callers {
		at, err := r.throughputOf(ctx, n, callers[:n], server.address, g.public)
		if err != nil {
			return fmt.Errorf("%d callers: %w", n, err)
		}
		filed += len(at.took)
		verifies += at.verifies / float64(len(r.Callers))
		x := float64(n)
		rates.Add(0, x, at.gateway)
		rates.Add(1, x, at.bare)
		for i, percent := range plottedPercentiles() {
			waits.Add(i, x, milliseconds(percentile(at.took, percent)))
		}
		r.reportThroughput(n, at)
	}
	r.report.Plots = append(r.report.Plots, *rates, *waits)
	if err := g.kill(); err != nil {
		return err
	}
	r.report.add(Row{
		Name: "step-cpu", What: "processor time of a gateway for one of these steps", Value: g.worked().Seconds() * 1e6 / float64(filed), Unit: "µs",
		Floor: "one bare verification", Bare: 1e6 * float64(runtime.GOMAXPROCS(0)) / verifies,
	})
	return nil
}

func plottedPercentiles() []float64 { return []float64{50, 90, 99} }

func (r *run) newPlots() (rates, waits *plot.Plot) {
	rates = &plot.Plot{Title: "Signed steps filed over HTTP", X: "callers", Y: "steps a second", Series: []plot.Series{{Name: "gateway"}, {Name: "verify and file one row"}}}
	waits = &plot.Plot{Title: "How long a caller waits until its step is on disk", X: "callers", Y: "milliseconds"}
	for _, percent := range plottedPercentiles() {
		waits.Series = append(waits.Series, plot.Series{Name: fmt.Sprintf("p%.0f", percent)})
	}
	return rates, waits
}

type throughput struct {
	gateway, bare float64 // steps per second
	verifies      float64 // per second, on all cores
	took          []time.Duration
}

func (r *run) throughputOf(ctx context.Context, n int, callers []*caller, bare, gateway string) (t throughput, err error) {
	steps := max(n, min(r.Steps, r.Steps/16*n)/turns) // fewer callers file fewer steps in the same time
	var without, with time.Duration
	for range turns {
		t.verifies += rate(r.Floor/turns, runtime.GOMAXPROCS(0), r.verify) / turns
		requests, err := posts(ctx, callers, steps)
		if err != nil {
			return t, err
		}
		_, took, err := sendAll(ctx, bare, n, requests)
		if err != nil {
			return t, fmt.Errorf("bare server: %w", err)
		}
		without += took
		each, took, err := sendAll(ctx, gateway, n, requests)
		if err != nil {
			return t, fmt.Errorf("gateway: %w", err)
		}
		with += took
		t.took = append(t.took, each...)
	}
	filed := float64(steps * turns)
	t.gateway, t.bare = filed/with.Seconds(), filed/without.Seconds()
	return t, nil
}

func (r *run) reportThroughput(n int, at throughput) {
	if !reported(n) {
		return
	}
	what, goal := fmt.Sprintf("signed steps over HTTP, %d at a time", n), ""
	if n == 64 {
		goal = ">= 0.60"
	}
	name := fmt.Sprintf("http-%d", n)
	r.report.add(Row{Name: name, What: what, Value: at.gateway, Unit: "/s", Floor: "server that verifies and files one row", Bare: at.bare, Goal: goal})
	r.report.add(Row{Name: name + "-verifications", What: what, Value: at.gateway, Unit: "/s", Floor: "bare verifications", Bare: at.verifies})
}
