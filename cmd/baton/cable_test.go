//go:build interop

package main_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// cable runs between a gateway and a network. It can be cut, and it can be made to
// carry nothing back: then the gateway never learns of an arrival. It keeps the
// lines written by the gateway.
type cable struct {
	addr string // address dialled by the gateway

	mu    sync.Mutex
	deaf  bool
	cut   bool
	wrote bytes.Buffer
}

func newWire(t *testing.T, to string) *cable {
	t.Helper()
	w := &cable{}
	w.addr = takeCalls(t, func(ctx context.Context, near net.Conn) { w.carry(ctx, near, to) })
	return w
}

// takeCalls listens until the test ends, and returns the address. Each call lasts until
// take returns, which must happen when its context ends.
func takeCalls(t *testing.T, take func(ctx context.Context, call net.Conn)) (addr string) {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			call, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { take(ctx, call) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = listener.Close()
		running.Wait()
	})
	return listener.Addr().String()
}

// carry connects one call of the gateway, until either side ends it.
func (w *cable) carry(ctx context.Context, near net.Conn, to string) {
	defer near.Close()
	if w.is(&w.cut) {
		return
	}
	var dialer net.Dialer
	far, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
	defer stop()
	var copying sync.WaitGroup
	copying.Go(func() { _, _ = io.Copy(io.MultiWriter(far, listening{w}), near); far.Close() })
	copying.Go(func() { _, _ = io.Copy(hearing{w, near}, far); near.Close() })
	copying.Wait()
}

func (w *cable) set(what *bool, to bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*what = to
}

func (w *cable) is(what *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *what
}

// said returns all that gateways wrote.
func (w *cable) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrote.String()
}

// listening keeps the lines that pass.
type listening struct{ *cable }

func (l listening) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote.Write(p)
}

// hearing passes on the lines that the gateway may read.
type hearing struct {
	*cable
	near io.Writer
}

func (h hearing) Write(p []byte) (int, error) {
	if h.is(&h.deaf) {
		return len(p), nil
	}
	return h.near.Write(p)
}
