package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"baton/federation"
)

// Bounds of a feed.
const (
	feedPage  = 256 // lanes that are asked for at once
	feedLanes = 64  // lanes side by side
	lanePage  = 64  // rows of one lane, before others have their turn
)

// idleWait is when a feed looks by itself: a wake-up may have been lost.
const idleWait = time.Second

// attemptTimeout bounds one attempt: a peer that takes a row and says nothing more is
// tried again, and those behind get its place. It is longer than any link keeps a peer
// that says nothing at all.
const attemptTimeout = 3 * time.Minute

// staleProgress is how old a report of progress is once a newer one is delivered in its
// place. Who reads along reads each one.
const staleProgress = 10 * time.Second

// maxFailures is how often a row may fail for another reason than that the peer is away,
// before it is given up.
const maxFailures = 12

// When a row is tried again: each time after twice as long, up to some share of its age,
// so that what waits for long costs little and what is new is prompt.
const (
	rowWait    = 500 * time.Millisecond
	minRowWait = 30 * time.Second // up to here whatever its age
	maxRowWait = 10 * time.Minute
	ageShare   = 20
)

var errEnded = errors.New("bridge: the link ended")

// errUnnoted is what the record could not note. The feed rests then: as far as the record
// knows, the same rows are due at once.
var errUnnoted = errors.New("bridge: not noted")

// Outbox holds the deliveries that are pending on each link. The deliveries of one handoff to
// one link are a lane. Its methods may be called concurrently and block on the disk. Each
// returns an error that wraps [*federation.UnavailableError] when that cannot be read or
// written now.
type Outbox interface {
	// Held returns whether, and since when, an operator holds the deliveries of a link.
	Held(ctx context.Context, link string) (federation.Withheld, bool, error)
	// Heads returns up to limit lanes of a link whose first delivery is due now: those of the
	// lowest [federation.Rank] first, of one rank the oldest.
	Heads(ctx context.Context, link string, now time.Time, limit int) ([]federation.HandoffID, error)
	// Lane returns up to limit deliveries of one lane in order, with those that cannot be
	// read.
	PendingOf(ctx context.Context, link string, id federation.HandoffID, limit int) ([]federation.Delivery, error)
	// Stuck returns the first lane whose first delivery is due after now: of the handoffs of a
	// DID, where it has any, else of all. It returns [federation.ErrNotFound] where there is
	// none.
	Stuck(ctx context.Context, link string, did federation.DID, now time.Time) (federation.HandoffID, error)
	// Attempt counts one more attempt on each row, before anything is written to the peer.
	Attempt(ctx context.Context, link string, rows []int64) error
	// Failed notes that an attempt on a row failed, and when the next one is.
	Failed(ctx context.Context, link string, row int64, f federation.Failure) error
	// Hurry makes every lane of a link due at once.
	Hurry(ctx context.Context, link string) error
	// Settle ends rows: delivered, refused, or given up.
	Settle(ctx context.Context, link string, rows []int64, s federation.Settlement) error
}

// feed hands a link what the record owes to it, while the link is up. Each handoff is a
// lane of its own, in order, so that a stuck one stalls no other; of the lanes that are
// due those of the lowest rank go first. When a row is tried again is in the record.
type feed struct {
	link    Link
	rows    Outbox
	wakes   Wakes
	metrics *Metrics
	log     *slog.Logger
	pace    *Pace
	fresh   fresh
	heard   chan federation.DID // has room for one: who was heard while something waits
	stuck   atomic.Bool         // something may wait for a later attempt
}

// maxFresh bounds the steps that are remembered as not tried yet. A link that is
// away for longer than that many steps shows the rest without what is shown once.
const maxFresh = 1 << 14

// fresh is the steps whose first attempt was counted when they were filed, and has
// not been made yet. It may be used concurrently.
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

// take reports whether a step was there, and forgets it.
func (f *fresh) take(id federation.EventID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.steps[id]
	delete(f.steps, id)
	return was
}

// probe asks for one attempt on what waits, because the peer was heard, or a DID behind
// it. It does not block, and is nearly free where nothing waits: it comes with each step.
func (f *feed) probe(did federation.DID) {
	if !f.stuck.Load() {
		return
	}
	select {
	case f.heard <- did:
	default: // one is enough
	}
}

// running is the lanes of a feed at one moment. One goroutine owns it.
type running struct {
	busy  map[federation.HandoffID]bool
	ready []federation.HandoffID // due, and not begun
	done  chan passed
	waits *backoff.ExponentialBackOff
	rest  <-chan time.Time // until then no lane is begun; nil for at once
}

// passed is a lane whose turn is over.
type passed struct {
	lane      federation.HandoffID
	delivered int
	unnoted   bool // the record could not be read or written
	probe     bool
}

// run delivers until ctx ends, and returns when all lanes have.
func (f *feed) run(ctx context.Context) error {
	wake, stop := f.wakes.Subscribe(OutboxTopic(f.link.Name()))
	defer stop()
	r := &running{busy: map[federation.HandoffID]bool{}, done: make(chan passed), waits: newWaits()}
	f.stuck.Store(true) // until the record was asked
	f.probe("")         // the peer is back
	idle := time.NewTicker(idleWait)
	defer idle.Stop()
	for ctx.Err() == nil {
		if r.rest == nil {
			f.fill(ctx, r)
		}
		select {
		case <-r.rest:
			r.rest = nil
		case p := <-r.done:
			f.over(ctx, r, p)
		case did := <-f.heard:
			f.tryStuck(ctx, r, did)
		case <-wake:
			r.ready = nil // what is new may go first
		case <-idle.C:
		case <-ctx.Done():
		}
	}
	for len(r.busy) > 0 {
		p := <-r.done
		delete(r.busy, p.lane)
	}
	return nil
}

// fill begins lanes that are due, as far as there is room.
func (f *feed) fill(ctx context.Context, r *running) {
	for len(r.busy) < feedLanes {
		if len(r.ready) == 0 && !f.look(ctx, r) {
			return
		}
		lane := r.ready[0]
		r.ready = r.ready[1:]
		f.begin(ctx, r, lane, false)
	}
}

// look asks the record what is due, and reports whether anything is.
func (f *feed) look(ctx context.Context, r *running) bool {
	_, held, err := f.rows.Held(ctx, f.link.Name())
	var due []federation.HandoffID
	if err == nil && !held {
		due, err = f.rows.Heads(ctx, f.link.Name(), time.Now(), len(r.busy)+feedPage)
	}
	if err != nil && ctx.Err() == nil {
		f.log.LogAttrs(ctx, slog.LevelError, "feed not read", slog.Any("err", err))
	}
	for _, lane := range due {
		if !r.busy[lane] {
			r.ready = append(r.ready, lane)
		}
	}
	return len(r.ready) > 0
}

// begin gives a lane its turn.
func (f *feed) begin(ctx context.Context, r *running, lane federation.HandoffID, probe bool) {
	if r.busy[lane] {
		return
	}
	r.busy[lane] = true
	go func() {
		over, unnoted := f.lane(ctx, lane)
		r.done <- passed{lane: lane, delivered: over, unnoted: unnoted, probe: probe}
	}()
}

// over ends the turn of a lane. A probe that got through lets all others be tried.
func (f *feed) over(ctx context.Context, r *running, p passed) {
	delete(r.busy, p.lane)
	switch {
	case p.unnoted && r.rest == nil:
		r.rest = time.After(r.waits.NextBackOff())
	case !p.unnoted && p.delivered > 0:
		r.waits.Reset()
	}
	if !p.probe || p.delivered == 0 {
		return
	}
	if err := f.rows.Hurry(ctx, f.link.Name()); err != nil && ctx.Err() == nil {
		f.log.LogAttrs(ctx, slog.LevelError, "feed not hurried", slog.Any("err", err))
	}
}

// tryStuck makes one attempt on what waits. It clears no failures: when it fails, the
// wait is longer.
func (f *feed) tryStuck(ctx context.Context, r *running, did federation.DID) {
	if _, held, err := f.rows.Held(ctx, f.link.Name()); held || err != nil || len(r.busy) >= feedLanes {
		return
	}
	f.stuck.Store(false) // first: what fails from here on may not be seen below
	lane, err := f.rows.Stuck(ctx, f.link.Name(), did, time.Now())
	if !errors.Is(err, federation.ErrNotFound) {
		f.stuck.Store(true)
	}
	if err == nil {
		f.begin(ctx, r, lane, true)
	}
}

// lane delivers the rows of one handoff in order, up to the first that has to wait, and
// returns how many are over, and whether the record could not note what became of one.
func (f *feed) lane(ctx context.Context, id federation.HandoffID) (over int, unnoted bool) {
	rows, err := f.rows.PendingOf(ctx, f.link.Name(), id, lanePage)
	if err != nil {
		if ctx.Err() == nil {
			f.log.LogAttrs(ctx, slog.LevelError, "lane not read", slog.String("handoff_id", id.String()), slog.Any("err", err))
		}
		return 0, true
	}
	for len(rows) > 0 && ctx.Err() == nil {
		d, covered := newest(rows, time.Now())
		if err := f.row(ctx, d, covered); err != nil {
			f.tellWait(ctx, d, err)
			return over, errors.Is(err, errUnnoted)
		}
		over += len(covered)
		rows = rows[len(covered):]
	}
	return over, false
}

// newest returns what is delivered of the front of a lane, and the rows that are over
// by it: one, or reports of progress that are old, of which the last one says it all.
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

// tellWait logs why a row has to wait.
func (f *feed) tellWait(ctx context.Context, d federation.Delivery, err error) {
	if ctx.Err() == nil {
		f.log.LogAttrs(ctx, slog.LevelInfo, "delivery waits", slog.String("event_id", d.Entry.Event.ID.String()),
			slog.String("handoff_id", d.View.ID.String()), slog.Int("attempt", d.Attempt+1), slog.Any("err", err))
	}
}

// row delivers one row and settles it with those that it covers. A nil error means
// that it is over, well or not.
func (f *feed) row(ctx context.Context, d federation.Delivery, covered []int64) error {
	if d.Broken != "" {
		return f.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadBroken, Why: d.Broken})
	}
	if err := f.pace.wait(ctx); err != nil {
		return err
	}
	shower, ok := f.link.(OnceShower)
	counted := ok && shower.ShowsOnce(d)
	if counted && f.fresh.take(d.Entry.Event.ID) {
		d.Attempt-- // the one that was counted with the step, and is made now
	} else if counted {
		if err := f.rows.Attempt(ctx, f.link.Name(), covered[len(covered)-1:]); err != nil {
			return fmt.Errorf("%w: attempt: %w", errUnnoted, err)
		}
	}
	trying, cancel := context.WithTimeout(ctx, attemptTimeout)
	err := f.link.Deliver(trying, d)
	cancel()
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case err == nil:
		f.pace.Took(time.Now())
		_, live := f.link.(Placer) // its people see what it delivers
		if _, replays := f.link.(Replayer); replays {
			live = false // and say so themselves
		}
		return f.settle(ctx, d, covered, federation.Settlement{Shown: live})
	case isRefusal:
		return f.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryRefused, Code: string(refused.Code), Why: refused.Sentence()})
	}
	return f.failed(ctx, d, covered, counted, err)
}

// failed notes an attempt that came to nothing, and returns why; or gives the row up,
// where that is no use.
func (f *feed) failed(ctx context.Context, d federation.Delivery, covered []int64, counted bool, err error) error {
	if ctx.Err() != nil {
		return err // the link is gone, and the row is not to blame
	}
	away, isAway := errors.AsType[*federation.UnavailableError](err)
	if !isAway && d.Attempt+1 >= maxFailures {
		return f.settle(ctx, d, covered, federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: err.Error()})
	}
	now := time.Now()
	wait := rowPause(d.Attempt, now.Sub(d.Entry.Filed))
	if isAway && away.RetryAfter > 0 {
		f.pace.TooMuch(now, away.RetryAfter)
		wait = away.RetryAfter
	}
	failure := federation.Failure{Reason: err.Error(), At: now, Next: now.Add(wait), Counted: counted}
	unnoted := f.rows.Failed(ctx, f.link.Name(), covered[0], failure)
	f.stuck.Store(true)
	if unnoted != nil {
		return errors.Join(err, fmt.Errorf("%w: failure: %w", errUnnoted, unnoted))
	}
	return err
}

// rowPause returns how long a row waits after so many attempts before: never quite as
// long as others.
func rowPause(attempts int, age time.Duration) time.Duration {
	longest := min(max(minRowWait, age/ageShare), maxRowWait)
	pause := min(longest, rowWait<<min(max(attempts, 0), 16))
	return pause - rand.N(pause/4+1) //nolint:gosec // G404: spreads load, and keeps no secret
}

// settle ends a row with those that it covers.
func (f *feed) settle(ctx context.Context, d federation.Delivery, covered []int64, how federation.Settlement) error {
	how.At = time.Now()
	outcome := how.Outcome()
	if outcome != federation.DeliveryDelivered {
		f.log.LogAttrs(ctx, slog.LevelWarn, "delivery ended", slog.String("outcome", string(outcome)), slog.String("event_id", d.Entry.Event.ID.String()),
			slog.String("handoff_id", d.View.ID.String()), slog.Int("attempt", d.Attempt+1), slog.String("reason", how.Why))
	}
	if err := f.rows.Settle(ctx, f.link.Name(), covered, how); err != nil {
		return fmt.Errorf("%w: settle: %w", errUnnoted, err)
	}
	f.metrics.Outcomes.WithLabelValues(f.link.Network(), string(outcome)).Add(float64(len(covered)))
	if outcome == federation.DeliveryDelivered {
		f.metrics.Deliver.WithLabelValues(f.link.Network()).Observe(how.At.Sub(d.Entry.Filed).Seconds())
	}
	return nil
}
