package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/deploy/agent"
	"github.com/baton-gateway/baton/federation"
)

type offerer interface {
	// name returns a name, unique in the lab.
	name() string
	// join makes the agent known to all homes.
	join(ctx context.Context) error
	// offer makes an offer to a DID. It returns the handoff's ID once a gateway has acknowledged
	// the offer. It returns an error once the gateway has refused it or ctx has ended.
	offer(ctx context.Context, to federation.DID, title string) (string, error)
	// inbox returns all steps in the inbox of the offerer.
	inbox(ctx context.Context) ([]step, error)
	// Handoff reads a handoff at the home of the offerer.
	Handoff(ctx context.Context, id string) (agent.Handoff, error)
}

type worker interface {
	name() string
	identity() federation.DID
	join(ctx context.Context) error
	// work processes offers until ctx ends.
	work(ctx context.Context)
	// received returns all offers that ever reached the worker.
	received(ctx context.Context) ([]step, error)
	// Handoff reads a handoff at the home of the worker, or returns an empty one if the worker
	// cannot read any.
	Handoff(ctx context.Context, id string) (agent.Handoff, error)
	// arrivals returns the offers that reached it since the start.
	arrivals() *arrivals
}

type step struct{ handoff, verb, title string }

type load struct {
	offerers []offerer
	workers  []worker
	pace     time.Duration // between two offers of one offerer to one worker

	mu      sync.Mutex
	acked   map[string]acknowledged // by handoff
	refused int
}

type acknowledged struct {
	from offerer
	to   worker
	at   time.Time
}

// run makes and completes offers until during returns and all handoffs are closed. The function
// during starts once each worker got an offer of each offerer.
func (l *load) run(ctx context.Context, during func(context.Context) error) error {
	working, stopWork := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stopWork()
	starting, started := context.WithTimeout(ctx, startTime)
	defer started()
	for _, w := range l.workers {
		if err := w.join(starting); err != nil {
			return err
		}
		work.Go(func() { w.work(working) })
	}
	offering, stopOffers := context.WithCancel(working)
	var offers sync.WaitGroup
	defer offers.Wait()
	defer stopOffers()
	for _, from := range l.offerers {
		if err := from.join(starting); err != nil {
			return err
		}
		for _, to := range l.workers {
			offers.Go(func() { l.offer(offering, working, from, to) })
		}
	}
	if err := l.recovers(ctx, time.Now(), startTime); err != nil {
		return err
	}
	if err := during(ctx); err != nil {
		return err
	}
	stopOffers()
	offers.Wait()
	return l.drain(ctx)
}

// An offer in flight is completed after the context until ends, because the gateway may have
// accepted it.
func (l *load) offer(until, ctx context.Context, from offerer, to worker) {
	for n := 0; until.Err() == nil; n++ {
		id, err := from.offer(ctx, to.identity(), titleOf(n, from.name(), to.name()))
		l.mu.Lock()
		if err == nil {
			l.acked[id] = acknowledged{from, to, time.Now()}
		} else if ctx.Err() == nil {
			l.refused++
			fmt.Fprintf(os.Stderr, "lab: offer of %s to %s: %v\n", from.name(), to.name(), err)
		}
		l.mu.Unlock()
		_ = wait(until, l.pace)
	}
}

func titleOf(n int, from, to string) string { return fmt.Sprintf("work %d from %s to %s", n, from, to) }

func offererOf(title string) string {
	var n int
	var from string
	_, _ = fmt.Sscanf(title, "work %d from %s", &n, &from) // another title has no offerer
	return from
}

// The zero value has no arrivals.
type arrivals struct {
	mu     sync.Mutex
	times  []time.Time
	last   map[string]time.Time // by the name of the offerer
	counts map[string]int       // by handoff
	failed map[string]string    // reasons of refused steps, by handoff
}

func (a *arrivals) record(s step) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.last, a.counts, a.failed = map[string]time.Time{}, map[string]int{}, map[string]string{}
	}
	a.times = append(a.times, time.Now())
	a.last[offererOf(s.title)] = time.Now()
	a.counts[s.handoff]++
	return a.counts[s.handoff] == 1
}

func (a *arrivals) lastOf(offerer string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[offerer]
}

func (a *arrivals) fail(id string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed[id] = err.Error()
}

func (l *load) recovers(ctx context.Context, after time.Time, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for _, to := range l.workers {
		for _, from := range l.offerers {
			for !to.arrivals().lastOf(from.name()).After(after) {
				if time.Now().After(deadline) {
					return fmt.Errorf("no offer of %s reaches %s within %s", from.name(), to.name(), patience)
				}
				if err := wait(ctx, 20*time.Millisecond); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (l *load) longestGap(from, to time.Time) time.Duration {
	var longest time.Duration
	for _, w := range l.workers {
		a := w.arrivals()
		a.mu.Lock()
		last := from
		for _, at := range append(slices.Clone(a.times), to) {
			if at.Before(from) || at.After(to) {
				continue
			}
			longest, last = max(longest, at.Sub(last)), at
		}
		a.mu.Unlock()
	}
	return longest
}

// drain waits until each acknowledged offer is completed, for a bounded time. The audit then names
// the others.
func (l *load) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	for id, offer := range l.acked {
		for {
			h, err := offer.from.Handoff(ctx, id)
			if ctx.Err() != nil {
				return nil // the audit lists it
			}
			if err != nil {
				return err
			}
			if h.State == "completed" {
				break
			}
			if err := wait(ctx, agent.RetryWait); err != nil {
				return nil // the audit lists it
			}
		}
	}
	return nil
}

type outcome struct {
	offers, steps       int // acknowledged by gateways; steps includes offers
	lost, twice, others []string
}

// String implements [fmt.Stringer].
func (o outcome) String() string {
	return fmt.Sprintf("%d offers acknowledged, %d lost, %d duplicated, %d not completed", o.offers, len(o.lost), len(o.twice), len(o.others))
}

// err returns an error unless there were offers, and each was completed exactly once.
func (o outcome) err() error {
	if o.offers > 0 && len(o.lost)+len(o.twice)+len(o.others) == 0 {
		return nil
	}
	return fmt.Errorf("lost %q, twice %q, not completed %q", o.lost, o.twice, o.others)
}

// audit compares the acknowledged offers with the inboxes of the workers and of the offerers, read
// from their start. It also compares the steps of each handoff at the homes of both.
func (l *load) audit(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	seen := map[sighting]int{}
	for _, w := range l.workers {
		steps, err := w.received(ctx)
		if err != nil {
			return outcome{}, fmt.Errorf("read the inbox of %s: %w", w.name(), err)
		}
		for _, s := range steps {
			seen[sighting{s.verb, s.handoff, w.name()}]++
		}
	}
	for _, o := range l.offerers {
		steps, err := o.inbox(ctx)
		if err != nil {
			return outcome{}, fmt.Errorf("read the inbox of %s: %w", o.name(), err)
		}
		for _, s := range steps {
			seen[sighting{s.verb, s.handoff, o.name()}]++
		}
	}
	out := outcome{offers: len(l.acked), steps: len(lifecycle) * len(l.acked), twice: l.repeated()}
	for id, offer := range l.acked {
		for _, want := range []sighting{{"offer", id, offer.to.name()}, {"accept", id, offer.from.name()}, {"complete", id, offer.from.name()}} {
			switch n := seen[want]; {
			case n == 0:
				out.lost = append(out.lost, want.String())
			case n > 1:
				out.twice = append(out.twice, want.String())
			}
		}
	}
	var err error
	out.others, err = l.unlike(ctx)
	return out, err
}

type sighting struct{ verb, handoff, agent string }

// String implements [fmt.Stringer].
func (s sighting) String() string { return s.verb + " of " + s.handoff + " to " + s.agent }

var lifecycle = [...]string{"offer", "accept", "complete"}

func (l *load) unlike(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var unlike []string
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(auditReaders)
	for id, offer := range l.acked {
		all.Go(func() error {
			for _, party := range []interface {
				name() string
				Handoff(ctx context.Context, id string) (agent.Handoff, error)
			}{offer.from, offer.to} {
				h, err := party.Handoff(ctx, id)
				if err != nil {
					return fmt.Errorf("read handoff %s at the home of %s: %w", id, party.name(), err)
				}
				if verbs := h.Verbs(); h.ID != "" && !slices.Equal(verbs, lifecycle[:]) {
					mu.Lock()
					unlike = append(unlike, fmt.Sprintf("%s at the home of %s: %s %v %s", id, party.name(), h.State, verbs, offer.to.arrivals().failure(id)))
					mu.Unlock()
				}
			}
			return nil
		})
	}
	return unlike, all.Wait()
}

func (l *load) repeated() []string {
	var twice []string
	for _, w := range l.workers {
		a := w.arrivals()
		a.mu.Lock()
		for id, n := range a.counts {
			if n > 1 {
				twice = append(twice, sighting{"offer", id, w.name()}.String())
			}
		}
		a.mu.Unlock()
	}
	return twice
}

func (a *arrivals) failure(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed[id]
}
