package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

type wire struct {
	listeners []net.Listener

	mu    sync.Mutex
	down  bool
	flow  chan struct{} // closed while bytes flow
	conns map[net.Conn]bool
}

// Each address is LISTEN=TARGET.
func newWire(ctx context.Context, addresses []string) (*wire, error) {
	w := &wire{flow: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(w.flow)
	for _, address := range addresses {
		at, target, ok := strings.Cut(address, "=")
		if !ok {
			return nil, errors.Join(fmt.Errorf("want LISTEN=TARGET, not %q", address), w.close())
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", at)
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.listeners = append(w.listeners, listener)
		go w.serve(listener, target)
	}
	return w, nil
}

func (w *wire) serve(listener net.Listener, target string) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go w.join(near, target)
	}
}

// join returns when one side closes or the wire is cut.
func (w *wire) join(near net.Conn, target string) {
	defer near.Close()
	if !w.hold(near) {
		return
	}
	defer w.release(near)
	far, err := net.Dial("tcp", target) //nolint:noctx // the loopback answers at once
	if err != nil {
		return
	}
	defer far.Close()
	if !w.hold(far) {
		return
	}
	defer w.release(far)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			defer way[0].Close()
			defer way[1].Close()
			w.carry(way[0], way[1])
		})
	}
	both.Wait()
}

func (w *wire) carry(from io.Reader, to io.Writer) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.mu.Lock()
		flow := w.flow
		w.mu.Unlock()
		<-flow
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// hold registers a connection for a cut. It returns false while the wire is cut.
func (w *wire) hold(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return false
	}
	w.conns[conn] = true
	return true
}

func (w *wire) release(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for conn := range w.conns {
		_ = conn.Close() // it may be closed already
	}
}

func (w *wire) stall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flow = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
	select {
	case <-w.flow:
	default:
		close(w.flow)
	}
}

func (w *wire) close() error {
	var errs []error
	for _, listener := range w.listeners {
		errs = append(errs, listener.Close())
	}
	w.mend()
	w.cut()
	return errors.Join(errs...)
}
