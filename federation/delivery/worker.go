// Package delivery is the engine for all pending deliveries: steps and texts to links and other
// homes, documents to other registries, inbox entries to webhooks, and notices to their readers. A
// destination supplies a function that makes one attempt, and a [Policy].
//
// A [Worker] serves one destination while it is connected. A [Pool] serves destinations without a
// connection: it leases destinations with a due delivery, so that replicas share them.
//
// A delivery ends when the destination has proved its receipt. If the process ends between an
// attempt and its proof, the delivery is repeated.
package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/store/deliveries"
)

const headsPage = 256

// A progress report of at least this age is skipped if a newer one follows. Users that watch the
// channel see the others.
const staleProgress = 10 * time.Second

// ErrUnnoted is returned for an attempt if the record could not be read or written. It is not a
// failure of the delivery. The worker then pauses, because the record would return the same
// deliveries at once.
var ErrUnnoted = errors.New("delivery: not noted")

// Worker serves one destination. It delivers many lanes concurrently, so that a failing lane delays
// no other one, and starts due lanes by ascending rank. With a rate limit, or by its policy, a lane
// makes one delivery at a time and senders take turns.
type Worker struct {
	to     Destination
	rows   deliveries.Rows
	fresh  fresh
	probes chan federation.DID // capacity 1: a DID that sent a step, or "" if the destination is back; each triggers one attempt
	stuck  atomic.Bool         // a delivery may wait for a later attempt

	// Owned by the goroutine that runs the worker.

	last   federation.DID // sender of the last turn
	until  time.Time      // no lane begins before it
	called bool           // accepted a delivery since the last pause
	away   int            // consecutive failures to respond
	waits  *backoff.ExponentialBackOff
}

// NewWorker returns the worker of a destination. It is idle until Run or Turn.
func NewWorker(to Destination, rows deliveries.Rows) *Worker {
	return &Worker{to: to, rows: rows, probes: make(chan federation.DID, 1), away: to.Away, waits: newWaits()}
}

// If a link is down, steps above this number are not shown on it.
const maxFresh = 1 << 14

// These steps were filed with their first attempt counted, but it has not been made yet. The set is
// safe for concurrent use.
type fresh struct {
	mu    sync.Mutex
	steps map[federation.EventID]bool
}

func (f *fresh) add(id federation.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.steps == nil {
		f.steps = map[federation.EventID]bool{}
	}
	if len(f.steps) < maxFresh {
		f.steps[id] = true
	}
}

func (f *fresh) remove(id federation.EventID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.steps[id]
	delete(f.steps, id)
	return was
}

// Probe requests one attempt on a pending delivery, because the peer or a DID on it sent something.
// It does not block, and is cheap while no delivery is pending.
func (w *Worker) Probe(did federation.DID) {
	if !w.stuck.Load() {
		return
	}
	select {
	case w.probes <- did:
	default:
	}
}

// One goroutine owns it.
type running struct {
	busy  map[string]bool
	ready []string // due, and not begun
	done  chan passed
	end   time.Time // no lane begins after it; zero for no limit
	more  bool      // something may be due
}

type passed struct {
	lane      string
	delivered int
	unnoted   bool        // the record could not be read or written
	later     *LaterError // nil unless the destination waits
	fault     error       // contained panic, or nil
	passing
}

// Expect announces a step filed with its first attempt counted. The attempt of any other step
// counts as made.
func (w *Worker) Expect(id federation.EventID) { w.fresh.add(id) }

// Run delivers until ctx ends or the code of the destination panics. It returns after all lanes
// have ended. It looks for new deliveries when wake has a token.
func (w *Worker) Run(ctx context.Context, wake <-chan struct{}) error {
	r := &running{busy: map[string]bool{}, done: make(chan passed)}
	w.until = time.Time{}
	w.waits.Reset()
	w.stuck.Store(true) // until a read of the record clears it
	w.Probe("")         // the peer is back
	var failed error
	for ctx.Err() == nil && failed == nil {
		looked := time.Now()
		w.fill(ctx, r)
		idle := time.NewTimer(w.rest(ctx, r, looked))
		select {
		case <-w.pause():
		case p := <-r.done:
			failed = p.fault
			w.over(ctx, r, p)
		case did := <-w.probes:
			w.tryStuck(ctx, r, did)
		case <-wake:
			r.ready = nil // a new lane may have a lower rank
		case <-idle.C:
		case <-ctx.Done():
		}
		idle.Stop()
	}
	return cmp.Or(failed, w.drain(r))
}

// rest returns the time until the next poll without a wake-up, at most [Policy.Look]. If no lane
// runs and a delivery waits, it is the time until the next one is due.
func (w *Worker) rest(ctx context.Context, r *running, looked time.Time) time.Duration {
	look := w.to.Policy.Look
	if len(r.busy) > 0 || !w.stuck.Load() {
		return look
	}
	next, err := w.rows.NextTo(ctx, w.to.Name, looked)
	if err != nil || next.IsZero() { // a failed read was logged by fill, or will be by the next one
		return look
	}
	return min(time.Until(next), look)
}

// Turn makes the due deliveries, until none is left or the destination must wait, and begins none
// after end. It reports whether more may be due, and when the worker may continue.
func (w *Worker) Turn(ctx context.Context, end time.Time) (again time.Time, more bool, err error) {
	r := &running{busy: map[string]bool{}, done: make(chan passed), end: end}
	for ctx.Err() == nil {
		if w.fill(ctx, r); len(r.busy) == 0 {
			break
		}
		p := <-r.done
		if w.over(ctx, r, p); p.fault != nil {
			return w.until, true, cmp.Or(p.fault, w.drain(r))
		}
	}
	return w.until, r.more, w.drain(r)
}

func (w *Worker) drain(r *running) (failed error) {
	for len(r.busy) > 0 {
		p := <-r.done
		failed = cmp.Or(failed, p.fault)
		delete(r.busy, p.lane)
	}
	return failed
}

// The channel is nil if lanes may begin now.
func (w *Worker) pause() <-chan time.Time {
	if wait := time.Until(w.until); wait > 0 {
		return time.After(wait)
	}
	return nil
}

func (w *Worker) inTurn() bool { return w.to.Policy.InTurn || w.to.Pace.Limited() }

// The record is read at most once, because the end of each lane triggers another call.
func (w *Worker) fill(ctx context.Context, r *running) {
	now := time.Now()
	if r.more = true; now.Before(w.until) || !r.end.IsZero() && !now.Before(r.end) {
		return
	}
	if w.inTurn() {
		w.fillInTurn(ctx, r)
		return
	}
	if len(r.ready) == 0 && len(r.busy) < w.to.Policy.Window {
		w.look(ctx, r)
	}
	for len(r.ready) > 0 && len(r.busy) < w.to.Policy.Window {
		lane := r.ready[0]
		r.ready = r.ready[1:]
		w.begin(ctx, r, lane, passing{})
	}
}

// Senders take turns, so that none waits behind all deliveries of another sender. The rank orders
// the lanes of each sender.
func (w *Worker) fillInTurn(ctx context.Context, r *running) {
	r.ready = nil
	if len(r.busy) >= w.to.Policy.Window {
		return
	}
	if wait := w.to.Pace.Wait(time.Now()); wait > 0 {
		w.until = time.Now().Add(wait)
		return
	}
	skipped := 0 // consecutive senders whose due lanes are all busy
	for len(r.busy) < w.to.Policy.Window && skipped <= len(r.busy) {
		turn, err := w.rows.Turn(ctx, w.to.Name, w.last, time.Now(), len(r.busy)+1)
		if err != nil {
			w.unread(ctx, err)
			return
		}
		if len(turn.Lanes) == 0 {
			r.more = len(r.busy) > 0
			return
		}
		i := slices.IndexFunc(turn.Lanes, func(lane string) bool { return !r.busy[lane] })
		if i < 0 {
			w.last = turn.Sender
			skipped++
			continue
		}
		if wait := w.to.Pace.Take(time.Now()); wait > 0 {
			w.until = time.Now().Add(wait)
			return
		}
		before := w.last
		w.last, skipped = turn.Sender, 0
		w.begin(ctx, r, turn.Lanes[i], passing{paced: true, before: before})
	}
}

// unread records that the record could not be read. A worker whose senders take turns then
// waits.
func (w *Worker) unread(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.to.Log.LogAttrs(ctx, slog.LevelError, "deliveries not read", slog.Any("err", err))
	}
	if w.to.Policy.InTurn {
		w.until = time.Now().Add(w.waits.NextBackOff())
	}
}

func (w *Worker) look(ctx context.Context, r *running) {
	due, err := w.rows.Heads(ctx, w.to.Name, time.Now(), len(r.busy)+headsPage)
	if err != nil {
		w.unread(ctx, err)
	}
	for _, lane := range due {
		if !r.busy[lane] {
			r.ready = append(r.ready, lane)
		}
	}
}

type passing struct {
	paced  bool // its first delivery already counts in the pace
	probe  bool
	before federation.DID // of the previous turn
}

func (w *Worker) begin(ctx context.Context, r *running, lane string, p passing) {
	if r.busy[lane] {
		return
	}
	r.busy[lane] = true
	called := w.called
	go func() {
		over := passed{lane: lane, passing: p}
		over.fault = fault.Catch(func() error { w.lane(ctx, &over, called); return nil })
		r.done <- over
	}()
}

// After a successful probe, every waiting lane is due.
func (w *Worker) over(ctx context.Context, r *running, p passed) {
	delete(r.busy, p.lane)
	now := time.Now()
	switch {
	case p.unnoted && !now.Before(w.until):
		w.until = now.Add(w.waits.NextBackOff())
	case !p.unnoted && p.delivered > 0:
		w.waits.Reset()
	}
	w.called = p.delivered > 0
	w.wait(ctx, p, now)
	if !p.probe || p.delivered == 0 {
		return
	}
	if err := w.rows.Hurry(ctx, w.to.Name); err != nil && ctx.Err() == nil {
		w.to.Log.LogAttrs(ctx, slog.LevelError, "deliveries not rescheduled", slog.Any("err", err))
	}
}

// wait makes the whole destination wait if a lane ended with that result.
func (w *Worker) wait(ctx context.Context, p passed, now time.Time) {
	away, pause := 0, time.Duration(0)
	if p.later != nil {
		pause = p.later.Pause
		if p.later.Untried {
			w.last = p.before // the sender keeps its turn
		}
		if p.later.Away {
			away = w.away + 1
			pause = max(pause, w.to.Policy.Pause.After(away, 0))
		}
	}
	if next := now.Add(pause); pause > 0 && next.After(w.until) {
		w.until = next
	}
	if away == w.away || p.unnoted || ctx.Err() != nil {
		return
	}
	w.away = away
	if w.to.Pause == nil {
		return
	}
	if err := w.to.Pause(ctx, away, w.until); err != nil && ctx.Err() == nil {
		w.to.Log.LogAttrs(ctx, slog.LevelError, "pause not recorded", slog.Any("err", err))
	}
}

// The attempt counts: after a failure the lane waits longer.
func (w *Worker) tryStuck(ctx context.Context, r *running, did federation.DID) {
	if _, held, err := w.rows.Held(ctx, w.to.Name); held || err != nil || len(r.busy) >= w.to.Policy.Window {
		return
	}
	w.stuck.Store(false) // before the read, which may not see a delivery that fails meanwhile
	lane, err := w.rows.Stuck(ctx, w.to.Name, did, time.Now())
	if !errors.Is(err, federation.ErrNotFound) {
		w.stuck.Store(true)
	}
	if err == nil {
		w.begin(ctx, r, lane, passing{probe: true})
	}
}

// A lane ends at the first delivery that must wait. If senders take turns, it makes only one
// delivery.
func (w *Worker) lane(ctx context.Context, p *passed, called bool) {
	rows, err := w.rows.PendingOf(ctx, w.to.Name, p.lane, w.to.Policy.Page)
	if err != nil {
		p.unnoted = true
		if ctx.Err() == nil {
			w.to.Log.LogAttrs(ctx, slog.LevelError, "lane not read", slog.String("lane", p.lane), slog.Any("err", err))
		}
		return
	}
	rows = slices.DeleteFunc(rows, func(d federation.Delivery) bool { return d.Personal && d.Next.After(time.Now()) })
	paced := p.paced
	for len(rows) > 0 && ctx.Err() == nil {
		d, covered := newest(rows, time.Now())
		rows = rows[len(covered):]
		err := w.row(ctx, d, covered, attempt{paced: paced, called: called})
		paced = false
		if err == nil {
			p.delivered += len(covered)
			if w.inTurn() {
				return // the next one may belong to another sender
			}
			continue
		}
		w.logWait(ctx, d, err)
		fault.Again(err)
		p.later, _ = errors.AsType[*LaterError](err)
		p.unnoted = errors.Is(err, ErrUnnoted)
		if _, absent := errors.AsType[*AbsentError](err); !absent || p.unnoted {
			return
		}
	}
}

// Of several old progress reports in a row, only the last is delivered. The others end with it.
func newest(lane []federation.Delivery, now time.Time) (d federation.Delivery, covered []int64) {
	for i, each := range lane {
		d, covered = each, append(covered, each.Row)
		d.Skipped = i
		stale := each.Broken == "" && each.Entry.Event.Verb == federation.Progress && now.Sub(each.Queued) >= staleProgress
		last := i+1 == len(lane) || lane[i+1].Broken != "" || lane[i+1].Entry.Event.Verb != federation.Progress
		if !stale || last {
			break
		}
	}
	return d, covered
}

func (w *Worker) logWait(ctx context.Context, d federation.Delivery, err error) {
	level := slog.LevelInfo
	if w.to.Policy.Routine {
		level = slog.LevelDebug
	}
	if ctx.Err() == nil {
		w.to.Log.LogAttrs(ctx, level, "delivery waits", slog.String("event_id", d.Ref()),
			slog.String("handoff_id", d.Handoff().String()), slog.Int("attempt", d.Attempt+1), slog.Any("err", err))
	}
}

type attempt struct {
	paced   bool // already counted in the pace
	called  bool // the destination accepted a delivery since its last pause
	counted bool // recorded before the attempt
}

// A nil error means that the delivery has ended: delivered, refused or abandoned.
func (w *Worker) row(ctx context.Context, d federation.Delivery, covered []int64, a attempt) error {
	if d.Broken != "" {
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadBroken, Why: d.Broken})
	}
	if !a.paced {
		if err := w.to.Pace.wait(ctx); err != nil {
			return err
		}
	}
	a.counted = w.to.ShowsOnce != nil && w.to.ShowsOnce(d)
	if a.counted && w.fresh.remove(d.Entry.Event.ID) {
		d.Attempt-- // the attempt counted with the step is this one
	} else if a.counted {
		if err := w.rows.Attempt(ctx, w.to.Name, covered[len(covered)-1:]); err != nil {
			return fmt.Errorf("%w: attempt: %w", ErrUnnoted, err)
		}
	}
	trying, cancel := context.WithTimeout(ctx, w.to.Policy.Attempt)
	err := fault.Catch(func() error { return w.to.Deliver(trying, d) })
	cancel()
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	givenUp, isGivenUp := errors.AsType[*federation.DeadLetterError](err)
	switch {
	case errors.Is(err, ErrUnnoted):
		return err
	case isGivenUp:
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: givenUp.Reason, Why: givenUp.Why})
	case err == nil:
		w.to.Pace.Took(time.Now())
		return w.settle(ctx, d, covered, federation.Settlement{Shown: w.to.Shown})
	case isRefusal:
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryRefused, Code: string(refused.Code), Why: refused.Sentence()})
	}
	return w.failed(ctx, d, covered, a, err)
}

// failed records a failed attempt and returns its error, or abandons the delivery after
// [Policy.Failures].
func (w *Worker) failed(ctx context.Context, d federation.Delivery, covered []int64, a attempt, err error) error {
	if ctx.Err() != nil {
		return err // the connection has ended: the attempt does not count
	}
	now := time.Now()
	_, absent := errors.AsType[*AbsentError](err)
	away, isAway := errors.AsType[*federation.UnavailableError](err)
	later, isLater := errors.AsType[*LaterError](err)
	if isLater && later.TooSoon && a.called {
		uncounted := *later
		uncounted.Untried = true
		return &uncounted
	}
	if isLater && later.Untried {
		return err
	}
	if most := w.to.Policy.Failures; most > 0 && !isAway && d.Attempt+1 >= most {
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: err.Error()})
	}
	wait := w.to.Policy.Retry.After(d.Attempt+1, now.Sub(d.Queued))
	failure := federation.Failure{Reason: err.Error(), At: now, Personal: absent, Counted: a.counted || w.to.Counts}
	switch {
	case isAway && away.RetryAfter > 0:
		w.to.Pace.TooMuch(now, away.RetryAfter)
		wait = away.RetryAfter
	case isLater:
		if later.TooMuch {
			w.to.Pace.TooMuch(now, later.Pause)
		}
		if wait = cmp.Or(later.Wait, wait); later.Away {
			wait = 0 // the whole destination waits
		}
		failure.Unsure = later.Unsure
	}
	failure.Next = now.Add(wait)
	failed := covered[:1]
	if absent { // from now on, each row has its own backoff
		failed = covered
	}
	var unnoted error
	for _, row := range failed {
		unnoted = errors.Join(unnoted, w.rows.Failed(ctx, w.to.Name, row, failure))
	}
	w.stuck.Store(true)
	if unnoted != nil {
		return errors.Join(err, fmt.Errorf("%w: failure: %w", ErrUnnoted, unnoted))
	}
	return err
}

// A proved delivery is ended even after the connection has ended, so that it is not repeated.
func (w *Worker) settle(ctx context.Context, d federation.Delivery, covered []int64, how federation.Settlement) error {
	ctx = context.WithoutCancel(ctx)
	how.At = time.Now()
	outcome := how.Outcome()
	if outcome != federation.DeliveryDelivered {
		w.to.Log.LogAttrs(ctx, slog.LevelWarn, "delivery ended", slog.String("outcome", string(outcome)), slog.String("event_id", d.Ref()),
			slog.String("handoff_id", d.Handoff().String()), slog.Int("attempt", d.Attempt+1), slog.String("reason", how.Why))
	}
	if err := w.rows.Settle(ctx, w.to.Name, covered, how); err != nil {
		return fmt.Errorf("%w: settle: %w", ErrUnnoted, err)
	}
	if w.to.Ended != nil {
		w.to.Ended(ctx, d, len(covered), how)
	}
	return nil
}

func newWaits() *backoff.ExponentialBackOff {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = 500*time.Millisecond, 30*time.Second, 2
	waits.Reset()
	return waits
}
