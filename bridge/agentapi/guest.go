package agentapi

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// parker is a writer of answers that may go on when their handler has returned, which then
// take no goroutine of a handler. The HTTP server has it; its Park says how.
type parker interface {
	Park(gone func()) (w http.ResponseWriter, end func(), err error)
}

// runner is the writer of a parked answer where turns with it come before new requests. That
// of the HTTP server is one; its Go says how.
type runner interface{ Go(turn func()) }

// guest is somebody who waits for an answer, or for more of it. Nothing is done for them
// but when they are called: then a goroutine takes their turn, which ends with it. They are
// called as often as somebody likes, and take one turn at a time, after the last call
// always one more. Before they are received they take none.
type guest struct {
	out  http.ResponseWriter
	run  func(turns func()) // in another goroutine
	turn func() (stays bool)
	end  func()      // the answer is complete
	gone atomic.Bool // the client is

	mu     sync.Mutex
	idle   bool // received, and in no turn
	called bool
}

// receive has a guest take turns, up to the one that says that they do not stay. It returns
// when the handler may: at once where the answer can be parked, else when it is complete.
func (g *guest) receive(ctx context.Context, w http.ResponseWriter, turn func() (stays bool)) {
	g.turn, g.run = turn, func(turns func()) { go turns() }
	if lot, can := w.(parker); can {
		var err error
		if g.out, g.end, err = lot.Park(g.goes); err == nil {
			if first, can := g.out.(runner); can {
				g.run = first.Go
			}
			g.run(g.turns)
			return
		}
	}
	complete := make(chan struct{})
	g.out, g.end = w, func() { close(complete) }
	g.run(g.turns)
	select {
	case <-complete:
	case <-ctx.Done():
		g.goes()
		<-complete
	}
}

// goes is what the client does who waits no longer.
func (g *guest) goes() {
	g.gone.Store(true)
	g.call()
}

// call has the guest take a turn soon. It does not block.
func (g *guest) call() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.called = true
	if g.idle {
		g.idle = false
		g.run(g.turns)
	}
}

// turns takes turns until the guest is called no more, or does not stay.
func (g *guest) turns() {
	for g.isCalled() {
		if !g.turn() {
			g.end()
			return // and is never idle again
		}
	}
}

// isCalled reports whether the guest was called since it was asked. If not, it is idle.
func (g *guest) isCalled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	called := g.called
	g.called, g.idle = false, !called
	return called
}
