package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"time"
)

const (
	// fillers are the connections over which the steps come that make the record larger, and
	// offerers the agents that make them: few, so that each has a full list from the start.
	fillers  = 64
	offerers = 8
	// fillBatch is how many of them are signed at a time.
	fillBatch = 4000
	// page is how much of a list or an inbox is read at a time.
	page = 50
	// replayed is how many steps wait for the agent that comes back.
	replayed = 1000
)

// grown is a gateway whose record grows.
type grown struct {
	*gateway

	callers []*caller
	back    *caller // an agent that comes back after many offers
	filed   int
}

// measureRecord measures what a step, a list and an inbox cost while the record grows, what it
// takes to read a long inbox, and how long a gateway is away after it was killed.
func (r *run) measureRecord(ctx context.Context) (err error) {
	g := &grown{}
	if g.gateway, err = r.openGateway(ctx, "record"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if g.callers, err = logAllIn(ctx, g.public, offerers); err != nil {
		return err
	}
	if g.back, err = logIn(ctx, g.public); err != nil {
		return err
	}
	if err := g.fillInbox(ctx); err != nil {
		return err
	}
	costs := g.costs()
	plot := Plot{Title: "Cost against the size of the record, p50", X: "steps in the record", Y: "milliseconds"}
	for _, cost := range costs {
		plot.Series = append(plot.Series, Series{Name: cost.name})
	}
	for _, size := range r.record {
		if err := g.grow(ctx, size); err != nil {
			return fmt.Errorf("grow record to %d steps: %w", size, err)
		}
		for i, cost := range costs {
			p50, err := g.probe(ctx, r.probes, cost.request)
			if err != nil {
				return fmt.Errorf("%s: %w", cost.name, err)
			}
			plot.add(i, float64(size), milliseconds(p50))
		}
	}
	for i, cost := range costs {
		points := plot.Series[i].Points
		first, last := points[0], points[len(points)-1]
		r.report.add(Row{
			What: fmt.Sprintf("%s, record of %.0f steps", cost.name, last[0]), Value: last[1], Unit: "ms",
			Floor: fmt.Sprintf("record of %.0f steps", first[0]), Bare: first[1], Goal: "<= 1.10",
		})
	}
	r.report.Plots = append(r.report.Plots, plot)
	return errors.Join(g.replay(ctx, r.report), g.restart(ctx, r.report))
}

// cost is something whose cost is measured.
type cost struct {
	name    string
	request func(ctx context.Context) ([]byte, error)
}

func (g *grown) costs() []cost {
	get := func(c *caller, path string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) { return c.get(ctx, path) }
	}
	return []cost{
		{"file one step", func(ctx context.Context) ([]byte, error) {
			g.filed++
			return g.callers[0].post(ctx, g.callers[1].key.DID)
		}},
		{fmt.Sprintf("list %d handoffs of a DID", page), get(g.callers[0], fmt.Sprintf("handoffs?state=offered&limit=%d", page))},
		{fmt.Sprintf("read %d entries of an inbox", page), get(g.back, fmt.Sprintf("inbox?limit=%d", page))},
	}
}

// probe returns how long one of some requests takes.
func (g *grown) probe(ctx context.Context, times int, make func(context.Context) ([]byte, error)) (time.Duration, error) {
	conn, err := dial(ctx, g.public)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var took []time.Duration
	for range times {
		request, err := make(ctx)
		if err != nil {
			return 0, err
		}
		begun := time.Now()
		if _, err := conn.send(request); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begun))
	}
	return percentile(took, 50), nil
}

// fillInbox offers work to the agent that comes back.
func (g *grown) fillInbox(ctx context.Context) error {
	requests, err := posts(ctx, g.callers, replayed, g.back.key.DID)
	if err != nil {
		return err
	}
	g.filed += replayed
	_, _, err = sendAll(ctx, g.public, fillers, requests)
	return err
}

// grow files steps until there are so many.
func (g *grown) grow(ctx context.Context, size int) error {
	for g.filed < size {
		requests, err := posts(ctx, g.callers, min(fillBatch, size-g.filed))
		if err != nil {
			return err
		}
		if _, _, err := sendAll(ctx, g.public, fillers, requests); err != nil {
			return err
		}
		g.filed += len(requests)
	}
	return nil
}

// replay reads an inbox to its end, page by page.
func (g *grown) replay(ctx context.Context, report *Report) error {
	var read int
	cursor := ""
	begun := time.Now()
	for read < replayed {
		var next struct {
			Items  []struct{}
			Cursor string `json:"next_cursor"`
		}
		if err := g.back.call(ctx, http.MethodGet, fmt.Sprintf("inbox?limit=%d&cursor=%s", page, cursor), nil, &next); err != nil {
			return err
		}
		if len(next.Items) == 0 {
			return fmt.Errorf("%d of %d waiting steps were read", read, replayed)
		}
		read += len(next.Items)
		cursor = next.Cursor
	}
	report.add(Row{What: fmt.Sprintf("read an inbox of %d waiting steps", replayed), Value: milliseconds(time.Since(begun)), Unit: "ms"})
	return nil
}

// restart kills the gateway, and starts it until an agent reads its inbox. The floor is the
// start of the program alone.
func (g *grown) restart(ctx context.Context, report *Report) error {
	begun := time.Now()
	if err := exec.CommandContext(ctx, g.program, "version").Run(); err != nil { //nolint:gosec // the program is this one
		return fmt.Errorf("print version: %w", err)
	}
	bare := time.Since(begun)
	if err := g.kill(); err != nil {
		return err
	}
	begun = time.Now()
	if err := g.start(ctx); err != nil {
		return err
	}
	err := await(ctx, "the first delivery", func() bool {
		var first struct{ Items []struct{} }
		err := g.back.call(ctx, http.MethodGet, "inbox?limit=1", nil, &first)
		return err == nil && len(first.Items) == 1
	})
	report.add(Row{
		What: fmt.Sprintf("start to first delivery after kill -9, record of %d steps", g.filed), Value: milliseconds(time.Since(begun)), Unit: "ms",
		Floor: "the program prints its version", Bare: milliseconds(bare), Goal: "<= 500 ms",
	})
	return err
}
