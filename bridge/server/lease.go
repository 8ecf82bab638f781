package server

import (
	"context"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/federation/fault"
)

// Leases gives each job of a home to one of its replicas at a time. A lease is named after
// the job.
type Leases interface {
	// RunExclusive calls do each time that this replica gets a lease, until ctx ends, and returns why
	// ctx ended. The context of do ends with ctx, or when the lease is lost: then do has half a
	// second to return before another replica may begin. Concurrent calls for one lease
	// within one replica share it.
	RunExclusive(ctx context.Context, lease string, do func(ctx context.Context)) error
}

// The leases of a home beside the leases of its links. The links to other homes share one with
// the hub: the replica that asks a home must be the one that reads its answer.
const (
	HomesLease   = "homes"
	WebhookLease = "webhooks"
	ClockLease   = "tidy" // the jobs that are due by the clock
)

// LinkLease returns the lease of the link with a name.
func LinkLease(name string) string { return "link " + name }

// leaseWait is how long a replica that starts waits for the lease of a link before it
// reports that another replica has it.
const leaseWait = 3 * time.Second

// leaseOf returns the lease of a link.
func leaseOf(link bridge.Link) string {
	if link.Network() == HomeNetwork {
		return HomesLease
	}
	return LinkLease(link.Name())
}

// lease says whether this replica has the lease of a link.
type lease struct {
	ours  atomic.Bool
	asked time.Time // set before the link starts
}

// elsewhere reports whether another replica has the lease.
func (l *lease) elsewhere() bool { return !l.ours.Load() && time.Since(l.asked) > leaseWait }

// supervise runs a link while this replica has its lease, until ctx ends. Each replica
// serves a link that is mounted on the HTTP listener.
func (l *LinkSet) supervise(ctx context.Context, r *running) {
	_, mounted := r.Link.(bridge.Mounted)
	var group fault.Group
	if mounted {
		group.Go(func() { l.run(ctx, r) })
	}
	_ = l.deps.Leases.RunExclusive(ctx, leaseOf(r.Link), func(ctx context.Context) { // its error is the end of ctx
		r.lease.ours.Store(true)
		defer r.lease.ours.Store(false)
		if mounted {
			<-ctx.Done()
			return
		}
		l.run(ctx, r)
	})
	group.Wait()
}
