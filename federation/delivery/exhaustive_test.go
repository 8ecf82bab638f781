package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// choices are the answers of one run. The next run has the next answers, so that all of them up to a
// depth are explored. After it each answer is 0.
type choices struct {
	depth  int
	chosen []int
	of     []int // numbers of possible answers
	asked  int
}

func (c *choices) choose(n int) int {
	if c.asked == c.depth {
		return 0
	}
	if c.asked == len(c.chosen) {
		c.chosen, c.of = append(c.chosen, 0), append(c.of, n)
	}
	c.of[c.asked] = n // of a run that is repeated
	c.asked++
	return c.chosen[c.asked-1]
}

func (c *choices) advance() bool {
	for i := len(c.chosen) - 1; i >= 0; i-- {
		if c.chosen[i]+1 < c.of[i] {
			c.chosen[i]++
			c.chosen, c.of, c.asked = c.chosen[:i+1], c.of[:i+1], 0
			return true
		}
	}
	return false
}

func (c *choices) String() string {
	var all []string
	for _, each := range c.chosen {
		all = append(all, strconv.Itoa(each))
	}
	return strings.Join(all, ".")
}

// The actions between two attempts.
const (
	actTurn = iota
	actCrash
	actHold // or release
	actExpire
	actions
)

// The results of an attempt. A crash has no result.
const (
	attemptTaken = iota
	attemptRefused
	attemptDead
	attemptAway
	attemptFailed
	attemptUnsure // the peer has it, and the proof is lost
	attemptCrash
	attemptTakenCrash // the peer has it, and the process ends before that is on record
	attempts
)

const (
	// A turn is made after each retry is due.
	boundedRetry = time.Second
	// The failures after which a delivery is given up, and the age at which it expires.
	boundedFailures = 2
	boundedAge      = time.Hour
	// More actions than any run needs.
	boundedActions = 30
)

// bounded explores the deliveries of two steps to one destination. Each run has its own destination
// in one record.
type bounded struct {
	choices

	t        *testing.T
	path     string // of the record
	record   *registry.Record
	runs     int
	tried    int // attempts of all runs
	sameLane bool

	// Of one run.

	to       string
	worker   *delivery.Worker
	steps    []federation.Event
	held     bool
	ends     []federation.DeliveryState // by the model; "" for a pending delivery
	failures []int
	takes    []int
	lost     []int // takes without a proof
	closed   []int // ends that the engine reported
	history  []string
	broken   []string // violated rules
}

func (b *bounded) violate(format string, args ...any) {
	b.broken = append(b.broken, fmt.Sprintf(format, args...))
}

func (b *bounded) note(format string, args ...any) {
	b.history = append(b.history, fmt.Sprintf(format, args...))
}

// open opens the record, as a gateway does at its start.
func (b *bounded) open() {
	var err error
	b.record, err = registry.Open(b.t.Context(), b.path, prometheus.NewRegistry(), engine.NoSync)
	must(b.t, err)
	b.serve()
}

// serve makes a worker for the destination of the run.
func (b *bounded) serve() {
	policy := delivery.ToLink()
	policy.Window, policy.Failures = 1, boundedFailures
	policy.Retry = delivery.Backoff{First: boundedRetry, Longest: boundedRetry}
	b.worker = delivery.NewWorker(delivery.Destination{
		Name: b.to, Policy: policy, Pace: delivery.NewPace(0), Log: slog.New(slog.DiscardHandler), Deliver: b.attempt,
		Ended: func(_ context.Context, d federation.Delivery, rows int, _ federation.Settlement) {
			b.closed[b.index(d)] += rows
		},
	}, b.record.Rows())
}

func (b *bounded) index(d federation.Delivery) int {
	return slices.IndexFunc(b.steps, func(ev federation.Event) bool { return ev.ID == d.Entry.Event.ID })
}

// file files the two steps of a run.
func (b *bounded) file() {
	file := func(f federation.Filing) federation.Filing {
		f.Links, f.Filed = []string{b.to}, time.Now()
		_, err := b.record.Append(b.t.Context(), f)
		must(b.t, err)
		b.steps = append(b.steps, f.Event)
		return f
	}
	n := 2 * b.runs
	first := file(federationtest.File(federationtest.Offer(n, ada, bob), federation.View{}))
	if b.sameLane {
		file(federationtest.File(federationtest.Step(n+1, first.Event, federation.Cancel, ada), first.View))
		return
	}
	file(federationtest.File(federationtest.Offer(n+1, ada, bob), federation.View{}))
}

// attempt makes one attempt, and keeps the model.
func (b *bounded) attempt(_ context.Context, d federation.Delivery) error {
	i := b.index(d)
	b.tried++
	switch {
	case i < 0:
		b.violate("an attempt on %s", d.Ref())
		return nil
	case b.ends[i] != "":
		b.violate("an attempt on step %d, which has ended", i)
	case b.held:
		b.violate("an attempt on step %d while it is held", i)
	case b.sameLane && i == 1 && b.ends[0] == "":
		b.violate("an attempt on step 1 before step 0 has ended")
	}
	result := b.choose(attempts)
	b.note("attempt %d of step %d: %s", b.failures[i]+1, i,
		[]string{"taken", "refused", "dead", "away", "failed", "unsure", "crash", "taken and crash"}[result])
	if result == attemptTaken || result == attemptUnsure || result == attemptTakenCrash {
		b.takes[i]++
	}
	switch result {
	case attemptTaken:
		b.ends[i] = federation.DeliveryDelivered
		return nil
	case attemptRefused:
		b.ends[i] = federation.DeliveryRefused
		return federation.Refuse(d.Entry.Event, federation.UnknownVerb, "")
	case attemptDead:
		b.ends[i] = federation.DeliveryDead
		return &federation.DeadLetterError{Reason: federation.DeadFailed, Why: "no"}
	case attemptAway:
		b.failures[i]++
		return &federation.UnavailableError{What: "peer", Err: errors.New("no answer")}
	case attemptFailed, attemptUnsure:
		if b.failures[i]++; b.failures[i] >= boundedFailures {
			b.ends[i] = federation.DeliveryDead
		}
		if result == attemptFailed {
			return errors.New("a fault")
		}
		b.lost[i]++
		return &delivery.LaterError{Err: errors.New("no answer"), Unsure: d.Ref()}
	}
	must(b.t, b.record.Close())
	b.record = nil
	if result == attemptCrash {
		return errors.New("killed")
	}
	b.lost[i]++
	return nil
}

// act makes one action, and compares the record with the model.
func (b *bounded) act() {
	ctx := b.t.Context()
	if b.held && b.asked == b.depth {
		must(b.t, b.record.Release(ctx, b.to))
		b.held = false
	}
	switch b.choose(actions) {
	case actTurn:
		b.note("turn")
		time.Sleep(boundedRetry)
		_, _, err := b.worker.Turn(ctx, time.Time{})
		must(b.t, err)
	case actCrash:
		b.note("crash")
		must(b.t, b.record.Close())
		b.record = nil
	case actHold:
		b.note("held: %t", !b.held)
		if b.held {
			must(b.t, b.record.Release(ctx, b.to))
		} else {
			must(b.t, b.record.Hold(ctx, federation.PausedQueue{To: b.to, Since: time.Now()}))
		}
		b.held = !b.held
	case actExpire:
		b.note("expire")
		time.Sleep(boundedAge)
		must(b.t, delivery.CheckOverdue(ctx, time.Now(), delivery.Overdue{
			Policy: func() delivery.Policy { return delivery.Policy{Expires: boundedAge} }, Expire: b.record.Expire,
		}))
		for i := range b.ends {
			if b.ends[i] == "" {
				b.ends[i] = federation.DeliveryDead
				b.closed[i]++ // the engine reports only their number
			}
		}
	}
	if b.record == nil {
		b.open()
	}
	b.compare()
}

// compare compares the record with the model.
func (b *bounded) compare() {
	handoffs := []federation.HandoffID{b.steps[0].Handoff}
	if !b.sameLane {
		handoffs = append(handoffs, b.steps[1].Handoff)
	}
	found := map[federation.EventID][]federation.DeliveryState{}
	for _, id := range handoffs {
		all, err := b.record.Deliveries(b.t.Context(), id, []string{b.to})
		must(b.t, err)
		for _, each := range all {
			if each.Link == b.to {
				found[each.Event] = append(found[each.Event], each.State)
			}
		}
	}
	for i, ev := range b.steps {
		want := b.ends[i]
		if want == "" {
			want = federation.DeliveryWaiting
		}
		if got := found[ev.ID]; len(got) != 1 || got[0] != want {
			b.violate("step %d is %q on record, want %q once", i, got, want)
		}
		if b.takes[i] > 1+b.lost[i] {
			b.violate("the peer has step %d %d times, and %d proofs were lost", i, b.takes[i], b.lost[i])
		}
		if want != federation.DeliveryWaiting && b.closed[i] != 1 || want == federation.DeliveryWaiting && b.closed[i] != 0 {
			b.violate("the engine reported %d ends of step %d, which is %s", b.closed[i], i, want)
		}
	}
}

// run makes actions until both deliveries have ended, and one more turn.
func (b *bounded) run() {
	b.runs++
	b.to = fmt.Sprintf("run%d", b.runs)
	b.steps, b.held, b.history, b.broken = nil, false, nil, nil
	b.ends, b.failures, b.takes, b.lost, b.closed = make([]federation.DeliveryState, 2), make([]int, 2), make([]int, 2), make([]int, 2), make([]int, 2)
	b.serve()
	b.file()
	for n := 0; slices.Contains(b.ends, "") && len(b.broken) == 0; n++ {
		if n == boundedActions {
			b.violate("the deliveries do not end")
			return
		}
		b.act()
	}
	if len(b.broken) > 0 {
		return
	}
	b.asked = b.depth // an attempt would be a violation
	b.act()
}

// explore runs all sequences, or one of them.
func (b *bounded) explore(only string) {
	name := map[bool]string{true: "one-lane", false: "two-lanes"}[b.sameLane]
	if only != "" {
		for each := range strings.SplitSeq(only, ".") {
			n, err := strconv.Atoi(each)
			must(b.t, err)
			b.chosen, b.of = append(b.chosen, n), append(b.of, 0)
		}
		b.depth = len(b.chosen)
	}
	b.open()
	for more := true; more && len(b.broken) == 0; {
		b.run()
		more = only == "" && b.advance()
	}
	for _, each := range b.broken {
		b.t.Errorf("%s: %s", name, each)
	}
	if len(b.broken) > 0 || only != "" {
		b.t.Logf("%s\nagain: BATON_SEQUENCE=%s/%s go test ./federation/delivery -run TestEveryShortSequence", strings.Join(b.history, "\n"), name, b.String())
	}
	must(b.t, b.record.Close())
	b.t.Logf("%s: %d sequences of up to %d choices, %d attempts", name, b.runs, b.depth, b.tried)
}

// exploreAll explores the deliveries in one lane and in two.
func exploreAll(t *testing.T, depth int) {
	t.Helper()
	lanes, only, _ := strings.Cut(os.Getenv("BATON_SEQUENCE"), "/")
	for _, same := range []bool{true, false} {
		if lanes != "" && same != (lanes == "one-lane") {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			folder := storetest.TempDir(t)
			must(t, storetest.OpenIn(t, folder).Close())
			(&bounded{choices: choices{depth: depth}, t: t, path: filepath.Join(folder, "baton.db"), sameLane: same}).explore(only)
		})
	}
}

// boundedDepth is the number of choices of the gate.
const boundedDepth = 4

// BATON_SEQUENCE repeats one sequence.
func TestEveryShortSequenceOfAttempts(t *testing.T) { exploreAll(t, boundedDepth) }
