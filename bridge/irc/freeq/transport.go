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

	"baton/bridge/irc"
)

// dialTimeout bounds one attempt to connect: an endpoint that is there answers in a
// few round trips, and the supervisor dials again.
const dialTimeout = 10 * time.Second

// transport makes streams, each with the lines of one connection. It is used by one
// goroutine.
type transport interface {
	// connect blocks until there is a stream whose other end is the endpoint that the
	// configuration names, as far as the transport can tell. Closing it ends both ways
	// and makes a pending Read and Write return.
	connect(ctx context.Context) (io.ReadWriteCloser, error)
	// Close gives up what a transport that is dialled holds between two streams.
	Close() error
}

// newDialling returns the transport with which this end dials.
func newDialling(cfg Config, d Deps) transport { //nolint:ireturn // which one it is the configuration says
	if cfg.Transport == Exec {
		return newDiallingChild(cfg, d)
	}
	return &dialer{network: string(cfg.Transport), address: cfg.Address}
}

// newListening returns the transport with which the peer dials.
func newListening(cfg Config, d Deps) transport { //nolint:ireturn // likewise
	if cfg.Transport == Exec {
		return newListeningChild(cfg, d)
	}
	return &listening{network: string(cfg.Transport), address: cfg.Listen, peer: cfg.EndpointID, log: linkLog(cfg, d)}
}

// dialer reaches a peer through a socket. Only the signatures of the peer prove its identity.
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

// listening accepts the peer on a socket. A connection counts once it has greeted as the
// peer: a port scan is no link, and ends none.
type listening struct {
	network, address string
	peer             string // endpoint id
	log              *slog.Logger
	listener         net.Listener // nil while there is none
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
		d.log.LogAttrs(ctx, slog.LevelInfo, "somebody else has connected", slog.Any("err", err))
	}
}

// admit waits for the greeting on a connection.
func (d *listening) admit(ctx context.Context, conn net.Conn) (io.ReadWriteCloser, error) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r := bufio.NewReaderSize(conn, readBufferBytes)
	_ = conn.SetReadDeadline(time.Now().Add(meetTimeout)) // without one the reading ends with ctx
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

// know returns why a line is not the greeting of the peer.
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

// admitted is a connection whose greeting has been read, and is read again.
type admitted struct {
	net.Conn
	in io.Reader
}

// Read implements io.Reader.
func (a *admitted) Read(b []byte) (int, error) { return a.in.Read(b) }
