package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

const (
	// Connections for the steps that fill the record, and the agents that offer them: few, so that
	// each has a full list from the start.
	fillers  = 64
	offerers = 16
	// Number of these steps signed at a time.
	fillBatch = 4000
	// Items of a list or an inbox read at a time.
	page = 50
	// Duration of a measurement. While a gateway sends notices for offers unread for five minutes,
	// steps are slower for one second in five. A shorter measurement might cover only that second,
	// or miss it.
	probeTime = 2 * time.Second
	// Number of steps waiting for the returning agent.
	replayed = 1000
	// Floor of the rows that need only the program, not a gateway.
	printsVersion = "the program prints its version"
)

type grown struct {
	*gateway

	callers []*caller
	back    *caller // an agent that returns after many offers
	inbox   int     // pending offers to it
	filed   int
}

// measureRecord measures the cost of a step, a list and an inbox in a large and in a small record.
// It also measures the time to read a long inbox, and the downtime of a killed gateway.
func (r *run) measureRecord(ctx context.Context) (err error) {
	small, err := r.openGrown(ctx, "small record")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, small.Close()) }()
	large, err := r.openGrown(ctx, "large record")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, large.Close()) }()
	for _, g := range []*grown{small, large} {
		if err := g.grow(ctx, r.Record[0], r.growsUntil()); err != nil {
			return fmt.Errorf("fill record: %w", err)
		}
	}
	if err := r.compareRecords(ctx, small, large); err != nil {
		return err
	}
	if err := r.measureReplay(ctx, large); err != nil {
		return err
	}
	return r.measureRestart(ctx, large)
}

// openGrown starts a gateway with pending offers to an agent. The caller closes it.
func (r *run) openGrown(ctx context.Context, folder string) (g *grown, err error) {
	g = &grown{inbox: min(replayed, r.Record[0])}
	if g.gateway, err = r.openGateway(ctx, folder); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if g.callers, err = logAllIn(ctx, g.public, offerers); err != nil {
		return nil, err
	}
	if g.back, err = logIn(ctx, g.public); err != nil {
		return nil, err
	}
	requests, err := posts(ctx, g.callers, g.inbox, g.back.key.DID)
	if err != nil {
		return nil, err
	}
	g.filed = len(requests)
	_, _, err = sendAll(ctx, g.public, fillers, requests)
	return g, err
}

// The zero time means never.
func (r *run) growsUntil() time.Time {
	if r.Limit == 0 {
		return time.Time{}
	}
	return r.began.Add(r.Limit)
}

func (r *run) compareRecords(ctx context.Context, small, large *grown) error {
	drawn := plot.Plot{Title: "Cost against the size of the record", X: "steps in the record", Y: "p50 as a multiple of that in a small record, by turns"}
	costs := costNames()
	for _, name := range costs {
		drawn.Series = append(drawn.Series, plot.Series{Name: name})
	}
	rows := make([]Row, len(costs))
	for _, size := range r.Record {
		if err := large.grow(ctx, size, r.growsUntil()); err != nil {
			return fmt.Errorf("grow record to %d steps: %w", size, err)
		}
		reached := large.filed
		for i, name := range costs {
			inLarge, inSmall, err := r.probe(ctx, large.costs()[i], small.costs()[i])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			drawn.Add(i, float64(reached), inLarge.Seconds()/inSmall.Seconds())
			rows[i] = Row{
				Name: []string{"large-append", "large-list", "large-inbox"}[i], What: fmt.Sprintf("%s, record of %d steps", name, reached),
				Value: milliseconds(inLarge), Unit: "ms", Floor: fmt.Sprintf("record of %d steps", small.filed), Bare: milliseconds(inSmall), Goal: "<= 1.10",
			}
		}
		if reached < size {
			break
		}
	}
	for _, row := range rows {
		r.report.add(row)
	}
	r.report.Plots = append(r.report.Plots, drawn)
	return nil
}

func costNames() []string {
	return []string{"file one step", fmt.Sprintf("list %d handoffs of a DID", page), fmt.Sprintf("read %d entries of an inbox", page)}
}

type cost struct {
	address string
	request func(ctx context.Context) ([]byte, error)
}

func (g *grown) costs() []cost {
	get := func(c *caller, path string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) { return c.get(ctx, path) }
	}
	return []cost{
		{g.public, func(ctx context.Context) ([]byte, error) {
			g.filed++
			return g.callers[0].post(ctx, g.callers[1].key.DID)
		}},
		{g.public, get(g.callers[0], fmt.Sprintf("handoffs?state=offered&limit=%d", page))},
		{g.public, get(g.back, fmt.Sprintf("inbox?limit=%d", page))},
	}
}

// probe returns the time of one request at each of two gateways, measured alternately.
func (r *run) probe(ctx context.Context, a, b cost) (ofA, ofB time.Duration, err error) {
	var took [2][]time.Duration
	var conns [2]*connection
	for i, c := range []cost{a, b} {
		if conns[i], err = dial(ctx, c.address); err != nil {
			return 0, 0, err
		}
		defer conns[i].Close()
	}
	for range r.Probes {
		for i, c := range []cost{a, b} {
			time.Sleep(r.ProbeTime / time.Duration(2*r.Probes)) // an operation after a pause takes longer, so pause before each probe
			request, err := c.request(ctx)
			if err != nil {
				return 0, 0, err
			}
			begun := time.Now()
			if err := conns[i].send(request); err != nil {
				return 0, 0, err
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	return percentile(took[0], 50), percentile(took[1], 50), nil
}

func (g *grown) grow(ctx context.Context, size int, until time.Time) error {
	for g.filed < size && (until.IsZero() || time.Now().Before(until)) {
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

// measureReplay measures the time to read an inbox to its end, page by page. The floor is the bare
// server, with as many rows.
func (r *run) measureReplay(ctx context.Context, g *grown) (err error) {
	server, err := r.openBare(ctx, "bare inbox")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	requests, err := posts(ctx, g.callers, g.inbox)
	if err != nil {
		return err
	}
	if _, _, err := sendAll(ctx, server.address, fillers, requests); err != nil {
		return err
	}
	var took, bare []time.Duration
	for range turns {
		once, err := replay(ctx, &caller{address: server.address}, "rows", g.inbox)
		if err != nil {
			return fmt.Errorf("bare server: %w", err)
		}
		bare = append(bare, once)
		if once, err = replay(ctx, g.back, "inbox", g.inbox); err != nil {
			return err
		}
		took = append(took, once)
	}
	r.report.add(Row{
		Name: "inbox-replay", What: fmt.Sprintf("read an inbox of %d waiting steps", g.inbox), Value: milliseconds(percentile(took, 50)), Unit: "ms",
		Floor: "the same pages of rows from the bare server", Bare: milliseconds(percentile(bare, 50)), Goal: "<= 35 ms",
	})
	return nil
}

func replay(ctx context.Context, c *caller, path string, items int) (time.Duration, error) {
	var read int
	cursor := ""
	begun := time.Now()
	for read < items {
		var next struct {
			Items  []struct{}
			Cursor string `json:"next_cursor"`
		}
		if err := c.call(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d&cursor=%s", path, page, cursor), nil, &next); err != nil {
			return 0, err
		}
		if len(next.Items) == 0 {
			return 0, fmt.Errorf("%d of %d waiting steps were read", read, items)
		}
		read += len(next.Items)
		cursor = next.Cursor
	}
	return time.Since(begun), nil
}

// measureRestart kills the gateway, and measures the restart until an agent reads its inbox. The
// floor is the start of the program.
func (r *run) measureRestart(ctx context.Context, g *grown) error {
	var took, bare []time.Duration
	for range r.Starts {
		begun := time.Now()
		if err := exec.CommandContext(ctx, g.program, "version").Run(); err != nil { //nolint:gosec // the program is this one
			return fmt.Errorf("print version: %w", err)
		}
		bare = append(bare, time.Since(begun))
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
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
	}
	r.report.add(Row{
		Name: "restart", What: fmt.Sprintf("start to first delivery after kill -9, record of %d steps", g.filed), Value: milliseconds(percentile(took, 50)), Unit: "ms",
		Floor: printsVersion, Bare: milliseconds(percentile(bare, 50)), Goal: "<= 500 ms",
	})
	return nil
}
