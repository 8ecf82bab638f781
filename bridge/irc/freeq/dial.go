package freeq

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation/fault"
)

type stream struct {
	io.ReadWriteCloser
	dialled bool
}

type way struct {
	transport transport // nil if not configured
	dialled   bool
	busy      bool // an attempt is running, or its result has not been received
}

type arrival struct {
	way  *way
	conn io.ReadWriteCloser
	err  error // set if there is no conn
}

func (a arrival) stream() stream { return stream{ReadWriteCloser: a.conn, dialled: a.way.dialled} }

// Attempts continue between two sessions, so that a peer can always dial in. One goroutine owns a
// reach.
type reach struct {
	dial, listen way
	arrivals     chan arrival  // capacity: one result of each way
	back         chan struct{} // one token while a connection is available
	log          *slog.Logger

	trying  context.Context // context of the attempts; nil while there are none
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

func (r *reach) announce() {
	select {
	case r.back <- struct{}{}:
	default:
	}
}

func (r *reach) finish(a arrival) {
	a.way.busy = false
	select {
	case <-r.back:
	default:
	}
}

func (r *reach) keep(a arrival) {
	a.way.busy = true
	r.announce()
	r.arrivals <- a
}

// waitForConn blocks until there is a connection or the dial attempt has failed.
func (r *reach) waitForConn(ctx context.Context) (stream, error) {
	r.try(ctx, &r.listen)
	if len(r.arrivals) == 0 {
		r.try(ctx, &r.dial)
	}
	for {
		select {
		case a := <-r.arrivals:
			r.finish(a)
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

func (r *reach) failed(ctx context.Context, a arrival) {
	r.log.LogAttrs(ctx, slog.LevelInfo, "other way to the peer failed", slog.Bool("dialled", a.way.dialled), slog.Any("err", a.err))
}

// Close blocks until all attempts have ended. Afterwards, waitForConn may be called again.
func (r *reach) Close() error {
	if r.trying != nil {
		r.cancel()
	}
	r.running.Wait()
	r.trying = nil
	for len(r.arrivals) > 0 {
		a := <-r.arrivals
		if r.finish(a); a.err == nil {
			_ = a.conn.Close()
		}
	}
	if r.listen.transport == nil {
		return nil
	}
	return r.listen.transport.Close()
}

// A reachable endpoint answers in a few round trips, and the supervisor dials again.
const dialTimeout = 10 * time.Second

// A transport is used by one goroutine.
type transport interface {
	// connect blocks until the transport has a stream to the configured endpoint. Closing the stream
	// unblocks a pending Read and Write.
	connect(ctx context.Context) (io.ReadWriteCloser, error)
	// Close releases a listening transport's resources between two streams.
	Close() error
}

func newDialling(cfg Config, d Deps) transport { //nolint:ireturn // the configuration selects the implementation
	if cfg.Transport == Exec {
		return newDiallingChild(cfg, d)
	}
	return &dialer{network: string(cfg.Transport), address: cfg.Address}
}

func newListening(cfg Config, d Deps) transport { //nolint:ireturn // likewise
	if cfg.Transport == Exec {
		return newListeningChild(cfg, d)
	}
	return &listening{network: string(cfg.Transport), address: cfg.Listen, peer: cfg.EndpointID, log: linkLog(cfg, d)}
}

// Only the peer's signatures prove its identity.
type dialer struct {
	network, address string
}

func (d *dialer) connect(ctx context.Context) (io.ReadWriteCloser, error) {
	by := net.Dialer{Timeout: dialTimeout}
	conn, err := by.DialContext(ctx, d.network, d.address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", d.address, err)
	}
	return conn, nil
}

// Close implements transport.
func (d *dialer) Close() error { return nil }

// A connection counts only after the peer's greeting, so that a port scan cannot replace a link.
type listening struct {
	network, address string
	peer             string // endpoint ID
	log              *slog.Logger
	listener         net.Listener // may be nil
}

func (d *listening) connect(ctx context.Context) (io.ReadWriteCloser, error) {
	if d.listener == nil {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, d.network, d.address)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", d.address, err)
		}
		d.listener = listener
	}
	listener := d.listener
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil, errors.Join(context.Cause(ctx), d.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("accept on %s: %w", d.address, err)
		}
		greeted, err := d.admit(ctx, conn)
		if err == nil {
			return greeted, nil
		}
		d.log.LogAttrs(ctx, slog.LevelInfo, "another endpoint has connected", slog.Any("err", err))
	}
}

func (d *listening) admit(ctx context.Context, conn net.Conn) (io.ReadWriteCloser, error) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r := bufio.NewReaderSize(conn, readBufferBytes)
	_ = conn.SetReadDeadline(time.Now().Add(meetTimeout)) // without a deadline, reading ends with ctx
	line, err := irc.ReadLine(r, maxLineBytes)
	if err == nil {
		err = d.know(line)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = conn.SetReadDeadline(time.Time{})
	return &admitted{Conn: conn, in: io.MultiReader(bytes.NewReader(append(line, '\n')), r)}, nil
}

func (d *listening) know(line []byte) error {
	m, _ := read(line)
	switch greeting, ok := m.(*hello); {
	case !ok:
		return errors.New("without a greeting")
	case greeting.PeerID != d.peer:
		return fmt.Errorf("it is endpoint %q", clip(greeting.PeerID))
	}
	return nil
}

// Close implements transport.
func (d *listening) Close() error {
	if d.listener == nil {
		return nil
	}
	err := d.listener.Close()
	d.listener = nil
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

type admitted struct {
	net.Conn
	in io.Reader
}

func (a *admitted) Read(b []byte) (int, error) { return a.in.Read(b) }
