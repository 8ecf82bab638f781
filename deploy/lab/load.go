package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/deploy/agent"
)

// pace is the time between two offers of one sender to one recipient.
const pace = 100 * time.Millisecond

// load is a group of agents that hand work to each other.
type load struct {
	senders    []*agent.Agent
	recipients []*recipient

	mu    sync.Mutex
	acked map[string]*agent.Agent // the handoffs whose offer a gateway acknowledged, with the offerer
}

// recipient is an agent that accepts and completes each offer that reaches it.
type recipient struct {
	*agent.Agent
	home string

	mu       sync.Mutex
	arrived  []time.Time       // one for each offer
	arrivals map[string]int    // arrivals of each offer in the inbox
	failed   map[string]string // steps that were refused, by handoff
}

// newLoad logs the agents in and waits until each recipient got a first offer.
func newLoad(ctx context.Context, senders, recipients []string) (*load, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	l := &load{acked: map[string]*agent.Agent{}}
	for i, home := range recipients {
		worker, err := agent.New(home)
		if err != nil {
			return nil, err
		}
		l.recipients = append(l.recipients, &recipient{Agent: worker, home: home, arrivals: map[string]int{}, failed: map[string]string{}})
		offerer, err := agent.New(senders[i%len(senders)])
		if err != nil {
			return nil, err
		}
		l.senders = append(l.senders, offerer)
		// An open offer reaches all homes and announces the offerer's mailbox to them.
		hello := map[string]string{"title": "hello"}
		if err := worker.Insist(ctx, "handoffs", "hello "+worker.DID, hello, nil); err != nil {
			return nil, fmt.Errorf("first step of the agent at %s: %w", home, err)
		}
	}
	return l, nil
}

// run makes offers and works on them while a function runs, and then until all are over.
func (l *load) run(ctx context.Context, during func(context.Context) error) error {
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	offering, stopOffers := context.WithCancel(working)
	defer stopOffers()
	var offers, work sync.WaitGroup
	for i, r := range l.recipients {
		offers.Go(func() { l.offer(offering, working, l.senders[i], r) })
		work.Go(func() { r.work(working) })
	}
	err := l.recovers(ctx, time.Now())
	if err == nil {
		err = during(ctx)
	}
	stopOffers()
	offers.Wait()
	if err == nil {
		err = l.drain(ctx)
	}
	stopWork()
	work.Wait()
	return err
}

// offer makes offers to a recipient until one context ends. An offer under way then is
// still made: the gateway may have taken it.
func (l *load) offer(until, ctx context.Context, from *agent.Agent, to *recipient) {
	for n := 0; until.Err() == nil; n++ {
		var made agent.Handoff
		body := map[string]string{"to": to.DID, "title": fmt.Sprintf("work %d", n)}
		if err := from.Insist(ctx, "handoffs", fmt.Sprintf("%s %d", from.DID, n), body, &made); err == nil {
			l.mu.Lock()
			l.acked[made.ID] = from
			l.mu.Unlock()
		} else if ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "lab: offer:", err)
		}
		_ = wait(until, pace)
	}
}

// work reads the inbox, and accepts and completes each offer once.
func (r *recipient) work(ctx context.Context) {
	cursor := ""
	var steps sync.WaitGroup
	defer steps.Wait()
	for ctx.Err() == nil {
		entries, next, err := r.Inbox(ctx, cursor)
		if err != nil {
			continue // ctx has ended, or the cursor is read again
		}
		cursor = next
		for _, e := range entries {
			if e.Step.Verb != "offer" {
				continue
			}
			r.mu.Lock()
			r.arrivals[e.Step.EventID]++
			again := r.arrivals[e.Step.EventID] > 1
			r.arrived = append(r.arrived, time.Now())
			r.mu.Unlock()
			if !again {
				steps.Go(func() { r.complete(ctx, e.Step.HandoffID) })
			}
		}
	}
}

// complete accepts and completes a handoff.
func (r *recipient) complete(ctx context.Context, id string) {
	for _, verb := range []string{"accept", "complete"} {
		if err := r.Insist(ctx, "handoffs/"+id+"/"+verb, verb+" "+id, struct{}{}, nil); err != nil {
			r.mu.Lock()
			r.failed[id] = err.Error()
			r.mu.Unlock()
			return
		}
	}
}

// recovers waits until each recipient got an offer after a time.
func (l *load) recovers(ctx context.Context, after time.Time) error {
	deadline := time.Now().Add(recoverTime)
	for _, r := range l.recipients {
		for {
			r.mu.Lock()
			got := len(r.arrived) > 0 && r.arrived[len(r.arrived)-1].After(after)
			r.mu.Unlock()
			if got {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("no offer reaches the agent at %s within %s", r.home, recoverTime)
			}
			if err := wait(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// longestGap returns the longest time between two offers that reached one recipient.
func (l *load) longestGap(from, to time.Time) time.Duration {
	var longest time.Duration
	for _, r := range l.recipients {
		r.mu.Lock()
		last := from
		for _, at := range append(slices.Clone(r.arrived), to) {
			if at.Before(from) || at.After(to) {
				continue
			}
			longest, last = max(longest, at.Sub(last)), at
		}
		r.mu.Unlock()
	}
	return longest
}

// drain waits until each acknowledged offer is completed, for at most a minute. The audit then
// names the others.
func (l *load) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	for id, offerer := range l.acked {
		for {
			var h agent.Handoff
			err := offerer.Insist(ctx, "handoffs/"+id, "", nil, &h)
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

// audit compares the acknowledged offers with the inboxes, read from their start, and with
// the steps of each handoff.
func (l *load) audit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	inInbox := map[string]int{}
	for _, r := range l.recipients {
		for cursor, more := "", true; more; {
			entries, next, err := r.Inbox(ctx, cursor)
			if err != nil {
				return fmt.Errorf("read the inbox at %s: %w", r.home, err)
			}
			for _, e := range entries {
				if e.Step.Verb == "offer" {
					inInbox[e.Step.HandoffID]++
				}
			}
			cursor, more = next, len(entries) > 0
		}
	}
	var lost, wrong []string
	twice := l.repeated()
	for id, offerer := range l.acked {
		switch n := inInbox[id]; {
		case n == 0:
			lost = append(lost, id)
		case n > 1:
			twice = append(twice, id)
		}
		var h agent.Handoff
		if err := offerer.Insist(ctx, "handoffs/"+id, "", nil, &h); err != nil {
			return fmt.Errorf("read handoff %s: %w", id, err)
		}
		if verbs := verbsOf(h); !slices.Equal(verbs, []string{"offer", "accept", "complete"}) {
			wrong = append(wrong, fmt.Sprintf("%s %s: %v %s", id, h.State, verbs, l.failure(id)))
		}
	}
	fmt.Fprintf(os.Stdout, "%d offers acknowledged, %d lost, %d duplicated, %d not completed\n", len(l.acked), len(lost), len(twice), len(wrong))
	if len(l.acked) == 0 || len(lost)+len(twice)+len(wrong) > 0 {
		return errors.New(fmt.Sprint("lost ", lost, ", twice ", twice, ", not completed ", wrong))
	}
	return nil
}

// repeated returns the offers that a recipient was shown twice as it read on.
func (l *load) repeated() []string {
	var twice []string
	for _, r := range l.recipients {
		r.mu.Lock()
		for id, n := range r.arrivals {
			if n > 1 {
				twice = append(twice, id)
			}
		}
		r.mu.Unlock()
	}
	return twice
}

// verbsOf returns the steps of a handoff.
func verbsOf(h agent.Handoff) []string {
	var verbs []string
	for _, step := range h.Steps {
		verbs = append(verbs, step.Verb)
	}
	return verbs
}

// failure returns the reason why a recipient could not complete a handoff, "" if it could.
func (l *load) failure(id string) string {
	for _, r := range l.recipients {
		r.mu.Lock()
		why := r.failed[id]
		r.mu.Unlock()
		if why != "" {
			return why
		}
	}
	return ""
}
