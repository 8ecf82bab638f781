package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/route"
)

const (
	otherHome = "other.bench.example"
	// Steps in a batch from one home to another, and batches in flight.
	batchSteps, batches = 256, 2
	// The outbox is polled at this interval; each poll counts its rows.
	countEach = 20 * time.Millisecond
)

// measureHomes measures the steps per second from one home to another: each is judged and on disk
// there, and its receipt verified and on disk here. The floor is a pair of servers that only verify
// and file at both ends.
func (r *run) measureHomes(ctx context.Context) (err error) {
	here, there, err := r.openHomes(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, here.Close(), there.Close()) }()
	pair, err := r.openPair(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.Close()) }()
	callers, err := logAllIn(ctx, here.public, fillers)
	if err != nil {
		return err
	}
	resident, err := logIn(ctx, there.public)
	if err != nil {
		return err
	}
	if err := learn(ctx, here, callers[0], resident); err != nil {
		return err
	}
	steps := max(1, r.Relayed/turns)
	var took, bare time.Duration
	for range turns {
		requests, err := posts(ctx, callers, steps, resident.key.DID)
		if err != nil {
			return err
		}
		once, err := pair.relay(ctx, steps)
		if err != nil {
			return fmt.Errorf("bare pair: %w", err)
		}
		bare += once
		if once, err = here.relay(ctx, there.name, requests); err != nil {
			return fmt.Errorf("homes: %w", err)
		}
		took += once
	}
	relayed := float64(steps * turns)
	r.report.add(Row{
		Name: "home-to-home", What: "steps from one home to another, with receipts", Value: relayed / took.Seconds(), Unit: "/s",
		Floor: "pair that verifies and files one row at both ends", Bare: relayed / bare.Seconds(), Goal: ">= 0.60",
	})
	return nil
}

// The caller closes both homes.
func (r *run) openHomes(ctx context.Context) (here, there *gateway, err error) {
	if here, err = r.newGateway(ctx, "here", homeName); err != nil {
		return nil, nil, err
	}
	if there, err = r.newGateway(ctx, "there", otherHome); err != nil {
		return nil, nil, err
	}
	if err := here.open(ctx, there); err != nil {
		return nil, nil, err
	}
	if err := there.open(ctx, here); err != nil {
		return nil, nil, errors.Join(err, here.Close())
	}
	return here, there, nil
}

func learn(ctx context.Context, here *gateway, from, to *caller) error {
	request, err := posts(ctx, []*caller{from}, 1, to.key.DID)
	if err != nil {
		return err
	}
	if _, _, err := sendAll(ctx, here.public, 1, request); err != nil {
		return err
	}
	return await(ctx, "the first step at the other home", func() bool {
		var first struct{ Items []struct{} }
		err := to.call(ctx, http.MethodGet, "inbox?limit=1", nil, &first)
		return err == nil && len(first.Items) == 1
	})
}

// relay files steps while another home is on hold, releases it, and returns the time until that
// home has receipted all of them.
func (g *gateway) relay(ctx context.Context, to string, requests [][]byte) (time.Duration, error) {
	operator := g.operator()
	if err := steer(ctx, operator, to, "hold"); err != nil {
		return 0, err
	}
	if _, _, err := sendAll(ctx, g.public, fillers, requests); err != nil {
		return 0, err
	}
	waiting, err := pending(ctx, operator, to)
	if err != nil || waiting < len(requests) { // the previous step may not have a receipt yet
		return 0, errors.Join(err, fmt.Errorf("%d of %d steps wait for %s", waiting, len(requests), to))
	}
	begun := time.Now()
	if err := steer(ctx, operator, to, "release"); err != nil {
		return 0, err
	}
	tick := time.NewTicker(countEach)
	defer tick.Stop()
	for waiting > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		before := waiting
		if waiting, err = pending(ctx, operator, to); err != nil {
			return 0, err
		}
		if waiting == before && time.Since(begun) > patience {
			return 0, fmt.Errorf("%d of %d steps still wait for %s", waiting, len(requests), to)
		}
	}
	return time.Since(begun), nil
}

func steer(ctx context.Context, operator *client.Client, to, verb string) error {
	_, err := client.Call(ctx, operator, admin.ChangeFeed, admin.FeedChange{ID: to, Verb: verb, Body: route.JSON(admin.Act{Reason: "bench"})})
	return err
}

func pending(ctx context.Context, operator *client.Client, to string) (rows int, err error) {
	page, err := client.Call(ctx, operator, admin.ListFeedShapes, admin.Paging{})
	for _, shape := range page.Items {
		if shape.Peer == to || shape.Link == to {
			rows += shape.Rows
		}
	}
	return rows, err
}

type barePair struct{ here, there *bareServer }

// The caller closes the pair.
func (r *run) openPair(ctx context.Context) (p *barePair, err error) {
	p = &barePair{}
	if p.here, err = r.openBare(ctx, "bare here"); err != nil {
		return nil, err
	}
	if p.there, err = r.openBare(ctx, "bare there"); err != nil {
		return nil, errors.Join(err, p.here.Close())
	}
	return p, nil
}

func (p *barePair) relay(ctx context.Context, steps int) (time.Duration, error) {
	waiting := make(chan []bareStep, steps)
	for left := steps; left > 0; left -= batchSteps {
		batch := make([]bareStep, min(left, batchSteps))
		for i := range batch {
			batch[i] = bareStep{Document: strings.Repeat("x", kib), Signature: bareSignature}
		}
		waiting <- batch
	}
	close(waiting)
	var errs [batches]error
	var all sync.WaitGroup
	begun := time.Now()
	for i := range errs {
		all.Go(func() {
			for batch := range waiting {
				errs[i] = errors.Join(errs[i], p.exchange(ctx, batch))
			}
		})
	}
	all.Wait()
	return time.Since(begun), errors.Join(errs[:]...)
}

const bareSignature = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func (p *barePair) exchange(ctx context.Context, batch []bareStep) error {
	var receipts []bareStep
	c := &caller{address: p.there.address}
	if err := c.call(ctx, http.MethodPost, "batch", batch, &receipts); err != nil {
		return err
	}
	return p.here.putAll(receipts)
}

// Close ends both servers.
func (p *barePair) Close() error { return errors.Join(p.here.Close(), p.there.Close()) }
