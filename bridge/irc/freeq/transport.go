package freeq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
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

// newTransport returns the transport that a configuration names.
func newTransport(cfg Config, d Deps) transport { //nolint:ireturn // which one it is the configuration says
	switch {
	case cfg.Transport == Exec:
		return newChild(cfg, d)
	case cfg.Listen != "":
		return &door{network: string(cfg.Transport), address: cfg.Listen}
	}
	return &dialer{network: string(cfg.Transport), address: cfg.Address}
}

// dialer reaches a peer through a socket. Nothing proves who is there but the
// signatures of the peer.
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

// door lets a peer in through a socket, one at a time: a second connection waits
// in the queue of the system until the first is over, which for one that is dead
// takes as long as a probe.
type door struct {
	network, address string
	listener         net.Listener // nil while there is none
}

func (d *door) connect(ctx context.Context) (io.ReadWriteCloser, error) {
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
	conn, err := listener.Accept()
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), d.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("accept on %s: %w", d.address, err)
	}
	return conn, nil
}

// Close implements transport.
func (d *door) Close() error {
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
