package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/store/deliveries"
)

const (
	// Concurrent destinations, at about 50 KB each during a TLS handshake.
	maxTurns = 64
	// A turn begins no delivery after this time, because other destinations may wait.
	turnLength = 10 * time.Second
	// Margin of a lease over the longest turn. When the lease ends, the destinations of a dead
	// gateway are served again.
	leaseMargin = 10 * time.Second
	// Destinations with state kept between turns. Others begin with their first sender.
	maxKept = 4096
	// Pause between two checks, so that a thousand wake-ups per second cause few checks.
	breath = 20 * time.Millisecond
	// Pause of a destination after a panic in its code.
	faultWait = time.Minute
)

// Pool serves the destinations of one kind without a connection. Each destination with a due
// delivery gets a turn, the longest waiting first.
type Pool struct {
	Kind   federation.DestinationKind
	Policy Policy
	Rows   deliveries.Rows
	// Open returns the destination for a delivery. It may block on the network, and returns
	// [federation.ErrNotFound] if there is nothing to deliver now.
	Open func(ctx context.Context, due federation.Destination) (Destination, error)
	// Fault is called with a panic, which ends the turn of one destination.
	Fault func(ctx context.Context, err error)
	Log   *slog.Logger
}

type turns struct {
	free  chan struct{} // one token per free slot
	ended chan struct{} // signals the end of a turn; has capacity for one token
	group fault.Group

	mu   sync.Mutex
	kept map[string]*Worker // of destinations that continue later
}

func (t *turns) worker(to Destination, rows deliveries.Rows) *Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.kept[to.Name]
	if delete(t.kept, to.Name); w == nil {
		return NewWorker(to, rows)
	}
	if w.to = to; to.Pause != nil { // the record has the pause
		w.away, w.until = to.Away, time.Time{}
	}
	return w
}

func (t *turns) keep(w *Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) >= maxKept {
		clear(t.kept)
	}
	t.kept[w.to.Name] = w
}

// Run serves destinations until ctx ends, and returns when all turns have ended. It looks for due
// destinations when wake has a token.
func (p *Pool) Run(ctx context.Context, wake <-chan struct{}) {
	t := &turns{free: make(chan struct{}, maxTurns), ended: make(chan struct{}, 1), kept: map[string]*Worker{}}
	for range maxTurns {
		t.free <- struct{}{}
	}
	defer t.group.Wait()
	for ctx.Err() == nil {
		looked := time.Now()
		p.begin(ctx, t, looked)
		rest := time.NewTimer(breath)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
		again := p.Policy.Look
		if next, err := p.Rows.NextDue(ctx, p.Kind, looked); err == nil && !next.IsZero() {
			again = min(time.Until(next), again)
		}
		timer := time.NewTimer(again)
		select {
		case <-wake:
		case <-timer.C:
		case <-t.ended:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (p *Pool) begin(ctx context.Context, t *turns, now time.Time) {
	room := len(t.free) // only this goroutine takes slots
	if room == 0 {
		return
	}
	due, err := p.Rows.Take(ctx, p.Kind, now, now.Add(turnLength+p.Policy.Attempt+leaseMargin), room)
	if shouldLog(ctx, err) {
		p.Log.LogAttrs(ctx, slog.LevelError, "destinations not read", slog.Any("err", err))
	}
	for _, each := range due {
		<-t.free
		t.group.Go(func() {
			p.serve(ctx, t, each)
			t.free <- struct{}{}
			select {
			case t.ended <- struct{}{}:
			default:
			}
		})
	}
}

// A panic in the code of the destination ends only this turn.
func (p *Pool) serve(ctx context.Context, t *turns, due federation.Destination) {
	again := time.Now()
	err := fault.Catch(func() error {
		to, err := p.Open(ctx, due)
		if err != nil {
			return err
		}
		w := t.worker(to, p.Rows)
		until, more, err := w.Turn(ctx, time.Now().Add(turnLength))
		again = time.Now()
		if paused := to.Pause != nil && w.away > 0; until.After(again) && !paused { // the record has that pause
			again = until
		}
		if more {
			t.keep(w)
		}
		return err
	})
	switch {
	case fault.Of(err) != nil:
		p.Fault(ctx, err)
		again = time.Now().Add(faultWait)
	case shouldLog(ctx, err) && !errors.Is(err, federation.ErrNotFound):
		p.Log.LogAttrs(ctx, slog.LevelError, "destination not served", slog.Any("err", err))
	}
	after := context.WithoutCancel(ctx) // the next gateway need not wait for the end of the lease
	if err := p.Rows.Unlock(after, due.Name, again); shouldLog(ctx, err) {
		p.Log.LogAttrs(ctx, slog.LevelError, "destination not released", slog.Any("err", err))
	}
}

// The end of the pool is not an error.
func shouldLog(ctx context.Context, err error) bool { return err != nil && ctx.Err() == nil }
