// Package delivery delivers everything that is pending: of each destination in the order of its lanes,
// as fast as the destination takes it, until the destination has proved that it has it.
package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"baton/federation"
	"baton/federation/fault"
)

// Bounds of an outbox worker.
const (
	headsPage = 256 // lanes that one read returns
	maxLanes  = 64  // lanes that deliver at a time
	lanePage  = 64  // deliveries of one lane, before another lane begins
)

// idleWait is how often a worker reads the outbox without a wake-up, because a wake-up may be
// lost.
const idleWait = time.Second

// attemptTimeout bounds one attempt: a delivery that the peer never answers is tried again
// later, and other lanes go on. It is longer than any link keeps a silent peer.
const attemptTimeout = 3 * time.Minute

// staleProgress is the age from which a report of progress is skipped where a newer one
// follows. Younger reports are all delivered, for users that watch the channel.
const staleProgress = 10 * time.Second

// maxFailures is how often a delivery may fail while the peer is reachable. Then it becomes a
// dead letter.
const maxFailures = 12

// A failed delivery waits twice as long after each attempt, up to a share of its age: old
// deliveries cost little, and new deliveries are prompt.
const (
	retryWait    = 500 * time.Millisecond
	minRetryWait = 30 * time.Second // the bound for young deliveries
	maxRetryWait = 10 * time.Minute
	ageShare     = 20
)

// errUnnoted is returned where the record could not note the result of a delivery. The worker
// pauses then, because the record would return the same deliveries at once.
var errUnnoted = errors.New("delivery: not noted")

// Outbox holds the pending deliveries of each link. The deliveries of one handoff to one link
// are a lane, and keep their order. The methods may be called concurrently and block on the
// disk. Each returns an error that wraps [*federation.UnavailableError] when the disk cannot
// be read or written now.
type Outbox interface {
	// Held reports whether an operator holds the deliveries of a link, and since when.
	Held(ctx context.Context, link string) (federation.Withheld, bool, error)
	// Heads returns up to limit lanes of a link whose first delivery is due now, by ascending
	// [federation.Rank], and the oldest first within a rank. It returns none of a link whose
	// deliveries an operator holds.
	Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error)
	// Turn returns the next sender after another one, in a circle of the senders with a due
	// delivery, with up to limit of its due lanes in the order of Heads.
	Turn(ctx context.Context, link string, after federation.DID, now time.Time, limit int) (federation.Turn, error)
	// PendingOf returns up to limit deliveries of one lane in order. Deliveries that wait for a
	// party and were not hurried come last. For a delivery that cannot be decoded, Broken has the
	// reason.
	PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error)
	// Stuck returns the first lane whose first delivery is due after now: a lane of the handoffs
	// of a DID if there is one, else of any handoff. It returns [federation.ErrNotFound] where
	// no lane waits.
	Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (federation.HandoffID, error)
	// Attempt counts one more attempt on deliveries, before the link writes to the peer.
	Attempt(ctx context.Context, link string, rows []int64) error
	// Failed notes that an attempt on a delivery failed, and when the next attempt is.
	Failed(ctx context.Context, link string, row int64, f federation.Failure) error
	// Hurry makes every lane of a link due now.
	Hurry(ctx context.Context, link string) error
	// Settle ends deliveries: delivered, refused, or given up.
	Settle(ctx context.Context, link string, rows []int64, s federation.Settlement) error
}

// AbsentError reports that a step reached its channel, but not a party that was away. The next call
// of Deliver for the step has [federation.Delivery.Personal] set, and is only for that party.
type AbsentError struct{ Err error }

// Error implements error.
func (e *AbsentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause, which wraps [*federation.UnavailableError].
func (e *AbsentError) Unwrap() error { return e.Err }

// Worker delivers the outbox of a link while the link is up. It delivers many lanes
// concurrently, so that a failing lane delays no other one, and starts due lanes by ascending rank.
// If the peer limits the rate, a started lane makes one delivery and senders take turns. The record
// keeps the time of each next attempt.
type Worker struct {
	to    Destination
	rows  Outbox
	log   *slog.Logger
	fresh fresh
	heard chan federation.DID // holds one DID that sent a step while a delivery waits
	stuck atomic.Bool         // a delivery may wait for a later attempt
}

// NewWorker returns the worker of one destination. Nothing runs until Run.
func NewWorker(to Destination, rows Outbox, log *slog.Logger) *Worker {
	return &Worker{to: to, rows: rows, log: log, heard: make(chan federation.DID, 1)}
}

// Destination is a place to deliver to.
type Destination struct {
	Name string
	Pace *Pace
	// Deliver makes one attempt, and returns nil after the destination has proved that it has the
	// delivery. The proof is that of the network: a receipt, a PONG, an acknowledgement.
	Deliver func(ctx context.Context, d federation.Delivery) error
	// ShowsOnce reports whether an attempt is counted before it is made: see bridge.OnceShower. Nil means
	// never.
	ShowsOnce func(d federation.Delivery) bool
	// Shown says that people have seen what was delivered.
	Shown bool
	// Ended is called after the end of a number of deliveries is on record.
	Ended func(d federation.Delivery, rows int, how federation.Settlement)
}

// maxFresh bounds the steps that a worker remembers as not tried yet. A link that is down
// during more steps than this does not show the rest of them.
const maxFresh = 1 << 14

// fresh is the set of steps whose first attempt was counted when they were filed, and is not
// made yet. It may be used concurrently.
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

// take removes a step and reports whether it was in the set.
func (f *fresh) take(id federation.EventID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.steps[id]
	delete(f.steps, id)
	return was
}

// Probe asks for one attempt on a waiting delivery, because the peer sent something, or a DID
// on it did. It does not block. It is called for each step, and costs little while no delivery
// waits.
func (w *Worker) Probe(did federation.DID) {
	if !w.stuck.Load() {
		return
	}
	select {
	case w.heard <- did:
	default: // an attempt is already asked for
	}
}

// running is the lanes of a worker at one moment. One goroutine owns it.
type running struct {
	busy  map[federation.HandoffID]bool
	ready []federation.HandoffID // due, and not begun
	done  chan passed
	waits *backoff.ExponentialBackOff
	pause <-chan time.Time // no lane begins before it; nil for no pause
	last  federation.DID   // whose turn at a paced link was the last one
	turn  <-chan time.Time // when the peer takes the next delivery; nil for no wait
}

// passed is a lane that has ended for now.
type passed struct {
	lane      federation.HandoffID
	delivered int
	unnoted   bool // the record could not be read or written
	probe     bool
	fault     error // contained panic, or nil
}

// Expect notes a step that is about to be filed with its first attempt counted. The attempt of any
// other step counts as made.
func (w *Worker) Expect(id federation.EventID) { w.fresh.add(id) }

// Run delivers until ctx ends or the code of the destination panics. It returns after all lanes have
// ended. It looks for new deliveries when wake has a token.
func (w *Worker) Run(ctx context.Context, wake <-chan struct{}) error {
	r := &running{busy: map[federation.HandoffID]bool{}, done: make(chan passed), waits: newWaits()}
	w.stuck.Store(true) // until the record says otherwise
	w.Probe("")         // the peer is back
	idle := time.NewTicker(idleWait)
	defer idle.Stop()
	var failed error
	for ctx.Err() == nil && failed == nil {
		if r.pause == nil {
			w.fill(ctx, r)
		}
		select {
		case <-r.pause:
			r.pause = nil
		case <-r.turn:
			r.turn = nil
		case p := <-r.done:
			failed = p.fault
			w.over(ctx, r, p)
		case did := <-w.heard:
			w.tryStuck(ctx, r, did)
		case <-wake:
			r.ready = nil // a new lane may have a lower rank
		case <-idle.C:
		case <-ctx.Done():
		}
	}
	for len(r.busy) > 0 {
		p := <-r.done
		failed = cmp.Or(failed, p.fault)
		delete(r.busy, p.lane)
	}
	return failed
}

// fill begins due lanes, up to [maxLanes]. It looks once at most: the end of each lane fills again.
func (w *Worker) fill(ctx context.Context, r *running) {
	if w.to.Pace.Limited() {
		w.fillInTurn(ctx, r)
		return
	}
	if len(r.ready) == 0 && len(r.busy) < maxLanes {
		w.look(ctx, r)
	}
	for len(r.ready) > 0 && len(r.busy) < maxLanes {
		lane := r.ready[0]
		r.ready = r.ready[1:]
		w.begin(ctx, r, lane, passing{})
	}
}

// fillInTurn begins as many due lanes as the peer takes deliveries now. Senders take turns in a
// circle, so that none waits behind all deliveries of another one. The rank orders the lanes of
// each sender.
func (w *Worker) fillInTurn(ctx context.Context, r *running) {
	r.ready = nil
	if r.turn != nil || len(r.busy) >= maxLanes {
		return
	}
	if wait := w.to.Pace.Wait(time.Now()); wait > 0 {
		r.turn = time.After(wait)
		return
	}
	skipped := 0 // senders in a row whose due lanes are all busy
	for len(r.busy) < maxLanes && skipped <= len(r.busy) {
		turn, err := w.rows.Turn(ctx, w.to.Name, r.last, time.Now(), len(r.busy)+1)
		if err != nil && ctx.Err() == nil {
			w.log.LogAttrs(ctx, slog.LevelError, "outbox not read", slog.Any("err", err))
		}
		if err != nil || turn.Sender == "" {
			return
		}
		i := slices.IndexFunc(turn.Lanes, func(lane federation.HandoffID) bool { return !r.busy[lane] })
		if i < 0 {
			r.last = turn.Sender
			skipped++
			continue
		}
		if wait := w.to.Pace.Take(time.Now()); wait > 0 {
			r.turn = time.After(wait)
			return
		}
		r.last, skipped = turn.Sender, 0
		w.begin(ctx, r, turn.Lanes[i], passing{paid: true})
	}
}

// look reads which lanes are due.
func (w *Worker) look(ctx context.Context, r *running) {
	due, err := w.rows.Heads(ctx, w.to.Name, time.Now(), len(r.busy)+headsPage)
	if err != nil && ctx.Err() == nil {
		w.log.LogAttrs(ctx, slog.LevelError, "outbox not read", slog.Any("err", err))
	}
	for _, lane := range due {
		if !r.busy[lane] {
			r.ready = append(r.ready, lane)
		}
	}
}

// passing describes how a lane starts.
type passing struct {
	paid  bool // its first delivery already counts in the pace
	probe bool
}

// begin starts a lane that is not running.
func (w *Worker) begin(ctx context.Context, r *running, lane federation.HandoffID, p passing) {
	if r.busy[lane] {
		return
	}
	r.busy[lane] = true
	go func() {
		over := passed{lane: lane, probe: p.probe}
		over.fault = fault.Catch(func() error { over.delivered, over.unnoted = w.lane(ctx, lane, p.paid); return nil })
		r.done <- over
	}()
}

// over notes the end of a lane. After a probe that delivered, every waiting lane is due.
func (w *Worker) over(ctx context.Context, r *running, p passed) {
	delete(r.busy, p.lane)
	switch {
	case p.unnoted && r.pause == nil:
		r.pause = time.After(r.waits.NextBackOff())
	case !p.unnoted && p.delivered > 0:
		r.waits.Reset()
	}
	if !p.probe || p.delivered == 0 {
		return
	}
	if err := w.rows.Hurry(ctx, w.to.Name); err != nil && ctx.Err() == nil {
		w.log.LogAttrs(ctx, slog.LevelError, "outbox not hurried", slog.Any("err", err))
	}
}

// tryStuck makes one attempt on a waiting lane. The attempt counts: after a failure the lane
// waits longer.
func (w *Worker) tryStuck(ctx context.Context, r *running, did federation.DID) {
	if _, held, err := w.rows.Held(ctx, w.to.Name); held || err != nil || len(r.busy) >= maxLanes {
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

// lane delivers one lane in order, up to the first delivery that has to wait. If the peer limits
// the rate, it makes only one delivery. It returns the number of finished deliveries, and whether
// the record failed to save a result. The first delivery of a paid lane already counts in the pace.
func (w *Worker) lane(ctx context.Context, id federation.HandoffID, paid bool) (over int, unnoted bool) {
	rows, err := w.rows.PendingOf(ctx, w.to.Name, id, lanePage)
	if err != nil {
		if ctx.Err() == nil {
			w.log.LogAttrs(ctx, slog.LevelError, "lane not read", slog.String("handoff_id", id.String()), slog.Any("err", err))
		}
		return 0, true
	}
	rows = slices.DeleteFunc(rows, func(d federation.Delivery) bool { return d.Personal && d.Next.After(time.Now()) })
	for len(rows) > 0 && ctx.Err() == nil {
		d, covered := newest(rows, time.Now())
		rows = rows[len(covered):]
		err := w.row(ctx, d, covered, paid)
		paid = false
		if err == nil {
			over += len(covered)
			if w.to.Pace.Limited() {
				return over, false // the next one may belong to another sender
			}
			continue
		}
		w.logWait(ctx, d, err)
		fault.Again(err)
		if _, absent := errors.AsType[*AbsentError](err); !absent || errors.Is(err, errUnnoted) {
			return over, errors.Is(err, errUnnoted)
		}
	}
	return over, false
}

// newest returns the next delivery of a lane, and the rows that end with it. Of several old
// reports of progress in a row only the last one is delivered, and ends all of them.
func newest(lane []federation.Delivery, now time.Time) (d federation.Delivery, covered []int64) {
	for i, each := range lane {
		d, covered = each, append(covered, each.Row)
		d.Skipped = i
		stale := each.Broken == "" && each.Entry.Event.Verb == federation.Progress && now.Sub(each.Entry.Filed) >= staleProgress
		last := i+1 == len(lane) || lane[i+1].Broken != "" || lane[i+1].Entry.Event.Verb != federation.Progress
		if !stale || last {
			break
		}
	}
	return d, covered
}

// logWait logs why a delivery has to wait.
func (w *Worker) logWait(ctx context.Context, d federation.Delivery, err error) {
	if ctx.Err() == nil {
		w.log.LogAttrs(ctx, slog.LevelInfo, "delivery waits", slog.String("event_id", d.Entry.Row().ID.String()),
			slog.String("handoff_id", d.Entry.Row().Handoff.String()), slog.Int("attempt", d.Attempt+1), slog.Any("err", err))
	}
}

// row makes one delivery and settles the rows that end with it. After a nil error the delivery
// has ended: delivered, refused or given up.
func (w *Worker) row(ctx context.Context, d federation.Delivery, covered []int64, paid bool) error {
	if d.Broken != "" {
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadBroken, Why: d.Broken})
	}
	if !paid {
		if err := w.to.Pace.wait(ctx); err != nil {
			return err
		}
	}
	counted := w.to.ShowsOnce != nil && w.to.ShowsOnce(d)
	if counted && w.fresh.take(d.Entry.Event.ID) {
		d.Attempt-- // the attempt that was counted with the step is this one
	} else if counted {
		if err := w.rows.Attempt(ctx, w.to.Name, covered[len(covered)-1:]); err != nil {
			return fmt.Errorf("%w: attempt: %w", errUnnoted, err)
		}
	}
	trying, cancel := context.WithTimeout(ctx, attemptTimeout)
	err := fault.Catch(func() error { return w.to.Deliver(trying, d) })
	cancel()
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	givenUp, isGivenUp := errors.AsType[*federation.GivenUpError](err)
	switch {
	case isGivenUp:
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: givenUp.Reason, Why: givenUp.Why})
	case err == nil:
		w.to.Pace.Took(time.Now())
		return w.settle(ctx, d, covered, federation.Settlement{Shown: w.to.Shown})
	case isRefusal:
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryRefused, Code: string(refused.Code), Why: refused.Sentence()})
	}
	return w.failed(ctx, d, covered, counted, err)
}

// failed notes a failed attempt and returns its error, or gives the delivery up after
// [maxFailures].
func (w *Worker) failed(ctx context.Context, d federation.Delivery, covered []int64, counted bool, err error) error {
	if ctx.Err() != nil {
		return err // the connection has ended: the attempt says nothing about the delivery
	}
	_, absent := errors.AsType[*AbsentError](err)
	away, isAway := errors.AsType[*federation.UnavailableError](err)
	if !isAway && d.Attempt+1 >= maxFailures {
		return w.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: err.Error()})
	}
	now := time.Now()
	wait := rowPause(d.Attempt, now.Sub(d.Entry.Filed))
	if isAway && away.RetryAfter > 0 {
		w.to.Pace.TooMuch(now, away.RetryAfter)
		wait = away.RetryAfter
	}
	failure := federation.Failure{Reason: err.Error(), At: now, Next: now.Add(wait), Counted: counted, Personal: absent}
	failed := covered[:1]
	if absent { // from now on each row waits by itself
		failed = covered
	}
	var unnoted error
	for _, row := range failed {
		unnoted = errors.Join(unnoted, w.rows.Failed(ctx, w.to.Name, row, failure))
	}
	w.stuck.Store(true)
	if unnoted != nil {
		return errors.Join(err, fmt.Errorf("%w: failure: %w", errUnnoted, unnoted))
	}
	return err
}

// rowPause returns how long a delivery waits after a number of attempts, with jitter.
func rowPause(attempts int, age time.Duration) time.Duration {
	longest := min(max(minRetryWait, age/ageShare), maxRetryWait)
	pause := min(longest, retryWait<<min(max(attempts, 0), 16))
	return pause - rand.N(pause/4+1) //nolint:gosec // G404: spreads load, and keeps no secret
}

// settle ends a delivery with all rows that it covers.
func (w *Worker) settle(ctx context.Context, d federation.Delivery, covered []int64, how federation.Settlement) error {
	how.At = time.Now()
	outcome := how.Outcome()
	if outcome != federation.DeliveryDelivered {
		w.log.LogAttrs(ctx, slog.LevelWarn, "delivery ended", slog.String("outcome", string(outcome)), slog.String("event_id", d.Entry.Row().ID.String()),
			slog.String("handoff_id", d.Entry.Row().Handoff.String()), slog.Int("attempt", d.Attempt+1), slog.String("reason", how.Why))
	}
	if err := w.rows.Settle(ctx, w.to.Name, covered, how); err != nil {
		return fmt.Errorf("%w: settle: %w", errUnnoted, err)
	}
	w.to.Ended(d, len(covered), how)
	return nil
}

func newWaits() *backoff.ExponentialBackOff {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval, waits.Multiplier = 500*time.Millisecond, 30*time.Second, 2
	waits.Reset()
	return waits
}
