package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// Leases of a home, besides the leases of its links. Each is named after a job that one replica
// does at a time. The links to other homes share a lease with the hub, because the replica that
// sends a request must also read the response.
const (
	HomesLease   = "homes"
	WebhookLease = "webhooks"
	ClockLease   = "tidy" // jobs due by the clock
)

// LinkLease returns the lease of a link.
func LinkLease(name string) string { return "link " + name }

// leaseWait is how long a starting replica waits for the lease of a link before it assumes that
// another replica has it.
const leaseWait = 3 * time.Second

func leaseOf(link bridge.Link) string {
	if link.Network() == HomeNetwork {
		return HomesLease
	}
	return LinkLease(link.Name())
}

type lease struct {
	ours  atomic.Bool
	asked time.Time // set before the link starts
}

func (l *lease) elsewhere() bool { return !l.ours.Load() && time.Since(l.asked) > leaseWait }

// supervise runs a link while this replica has its lease, until ctx ends. A link mounted on the
// HTTP listener is served by each replica.
func (l *LinkSet) supervise(ctx context.Context, r *running) {
	_, mounted := r.Link.(bridge.Mounted)
	var group fault.Group
	if mounted {
		group.Go(func() { l.run(ctx, r) })
	}
	_ = l.deps.RunExclusive(ctx, leaseOf(r.Link), func(ctx context.Context) { // its error is the end of ctx
		r.lease.ours.Store(true)
		defer r.lease.ours.Store(false)
		if mounted {
			r.supervisor.Tell(ctx)
			<-ctx.Done()
			return
		}
		l.run(ctx, r)
	})
	group.Wait()
}

type power struct {
	mu    sync.Mutex
	off   bool
	on    chan struct{}      // closed when the link is switched on; nil while it is on
	stop  context.CancelFunc // cancels the current run; nil between two runs
	ended chan struct{}      // closed after the current run
}

// begin blocks while the link is off, or until ctx ends. It returns the context of one run, and a
// function to call after the run.
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

func (p *power) connect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		p.off = false
		close(p.on)
	}
}

// Dial makes a waiting link dial now, without blocking. Dial, Disconnect and Connect return
// [federation.ErrNotFound] for an unknown name.
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

// Connect starts a link stopped by [LinkSet.Disconnect], without blocking.
func (l *LinkSet) Connect(name string) error { return l.Dial(name) }
