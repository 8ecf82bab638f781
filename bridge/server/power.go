package server

import (
	"context"
	"sync"

	"baton/federation"
)

// power is whether operators let a link run. The zero value lets it run.
type power struct {
	mu    sync.Mutex
	off   bool
	on    chan struct{}      // closed when off ends; nil unless off
	stop  context.CancelFunc // of the current run; nil between two runs
	ended chan struct{}      // closed after the current run
}

// begin blocks while the link is off, at most until ctx ends. It returns the context of one run,
// and the function to call after that.
func (p *power) begin(ctx context.Context) (runs context.Context, end func()) {
	p.mu.Lock()
	for p.off && ctx.Err() == nil {
		on := p.on
		p.mu.Unlock()
		select {
		case <-on:
		case <-ctx.Done():
		}
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	runs, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	p.stop, p.ended = stop, ended
	return runs, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		stop()
		p.stop = nil
		close(ended)
	}
}

// disconnect turns the link off and blocks until its run has ended.
func (p *power) disconnect() {
	p.mu.Lock()
	if !p.off {
		p.off, p.on = true, make(chan struct{})
	}
	stop, ended := p.stop, p.ended
	p.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
}

// connect turns the link on.
func (p *power) connect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		p.off = false
		close(p.on)
	}
}

// Dial ends the wait of a link that is to dial later. It does not block. It returns
// [federation.ErrNotFound] for a name that no link has, as Disconnect and Connect do.
func (l *LinkSet) Dial(name string) error {
	r := l.current.Load().named[name]
	if r == nil {
		return federation.ErrNotFound
	}
	r.supervisor.Dial()
	r.power.connect()
	return nil
}

// Disconnect stops a link until [LinkSet.Connect], or until a link with another configuration
// replaces it. It blocks until the link has stopped.
func (l *LinkSet) Disconnect(name string) error {
	r := l.current.Load().named[name]
	if r == nil {
		return federation.ErrNotFound
	}
	r.power.disconnect()
	return nil
}

// Connect starts a link that [LinkSet.Disconnect] stopped. It does not block.
func (l *LinkSet) Connect(name string) error { return l.Dial(name) }
