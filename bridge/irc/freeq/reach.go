package freeq

import (
	"context"
	"io"
	"log/slog"

	"baton/federation/fault"
)

// stream is one connection to the peer.
type stream struct {
	io.ReadWriteCloser
	dialled bool // by this end
}

// way is one of the two ways to a connection: to dial, and to be dialled.
type way struct {
	transport transport // nil where the configuration does not name it
	dialled   bool
	busy      bool // an attempt is under way, or over and not taken yet
}

// arrival is what an attempt to connect came to.
type arrival struct {
	way  *way
	conn io.ReadWriteCloser
	err  error // then there is no conn
}

func (a arrival) stream() stream { return stream{ReadWriteCloser: a.conn, dialled: a.way.dialled} }

// reach brings connections to the peer about, both ways where the configuration names
// both. Attempts go on between two sessions, so that a peer that dials is let in
// whenever it does. It is owned by one goroutine.
type reach struct {
	dial, listen way
	arrivals     chan arrival  // has room for what each way can bring
	back         chan struct{} // has one token while a connection waits to be taken
	log          *slog.Logger

	trying  context.Context // of the attempts; nil while there is none
	cancel  context.CancelFunc
	running fault.Group
}

func newReach(cfg Config, d Deps) *reach {
	r := &reach{
		dial: way{dialled: true}, arrivals: make(chan arrival, 2), back: make(chan struct{}, 1), log: linkLog(cfg, d),
	}
	if cfg.dials() {
		r.dial.transport = newDialling(cfg, d)
	}
	if cfg.Listen != "" {
		r.listen.transport = newListening(cfg, d)
	}
	return r
}

// try starts an attempt, unless that way has one.
func (r *reach) try(ctx context.Context, w *way) { //nolint:contextcheck // an attempt outlives the session that starts it
	if w.transport == nil || w.busy {
		return
	}
	if r.trying == nil {
		r.trying, r.cancel = context.WithCancel(context.WithoutCancel(ctx)) // until Close
	}
	w.busy = true
	trying := r.trying
	r.running.Go(func() {
		var conn io.ReadWriteCloser
		err := fault.Catch(func() (err error) { conn, err = w.transport.connect(trying); return err })
		if err == nil {
			r.announce()
		}
		r.arrivals <- arrival{way: w, conn: conn, err: err}
	})
}

// announce says that a connection waits.
func (r *reach) announce() {
	select {
	case r.back <- struct{}{}:
	default: // that is known
	}
}

// taken notes that what an attempt came to has been taken.
func (r *reach) taken(a arrival) {
	a.way.busy = false
	select {
	case <-r.back:
	default:
	}
}

// keep puts a connection back for the next session.
func (r *reach) keep(a arrival) {
	a.way.busy = true
	r.announce()
	r.arrivals <- a
}

// meet blocks until there is a connection, or no hope of one before the next attempt.
func (r *reach) meet(ctx context.Context) (stream, error) {
	r.try(ctx, &r.listen)
	if len(r.arrivals) == 0 {
		r.try(ctx, &r.dial)
	}
	for {
		select {
		case a := <-r.arrivals:
			r.taken(a)
			if a.err == nil {
				return a.stream(), nil
			}
			if a.way.dialled || !r.dial.busy {
				return stream{}, a.err
			}
			r.failed(ctx, a)
		case <-ctx.Done():
			return stream{}, context.Cause(ctx)
		}
	}
}

// failed notes an attempt that another one makes up for.
func (r *reach) failed(ctx context.Context, a arrival) {
	r.log.LogAttrs(ctx, slog.LevelInfo, "other way to the peer failed", slog.Bool("dialled", a.way.dialled), slog.Any("err", a.err))
}

// Close ends all attempts and closes what they brought. It waits for them, and meet may
// be called again after.
func (r *reach) Close() error {
	if r.trying != nil {
		r.cancel()
	}
	r.running.Wait()
	r.trying = nil
	for len(r.arrivals) > 0 {
		a := <-r.arrivals
		if r.taken(a); a.err == nil {
			_ = a.conn.Close()
		}
	}
	if r.listen.transport == nil {
		return nil
	}
	return r.listen.transport.Close()
}
