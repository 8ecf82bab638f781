package peers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/fault"
)

// Notices to a sender after the answer to its message.
//
// spec: airc-shapes "A step as payload"
const (
	noticeDelayed       = "delayed"
	noticeDelivered     = "delivered"
	noticeUndeliverable = "undeliverable"
)

const (
	firstPause = time.Second // first retry of a delivery that the registry did not judge
)

// Run sends the queued deliveries to other registries until ctx ends: one at a time to each registry,
// concurrently to many.
func (ps *Registries) Run(ctx context.Context) {
	wake, stop := ps.deps.PubSub.Subscribe(bridge.RelayTopic)
	defer stop()
	pool := delivery.Pool{
		Kind: federation.ToPeer, Policy: delivery.ToRegistry(), Rows: ps.deps.Record.Rows(), Open: ps.open,
		Log:   ps.deps.Log.With(slog.String("network", wire.Network), slog.String("link", wire.Network)),
		Fault: func(ctx context.Context, err error) { ps.deps.Metrics.Fault(ctx, ps.deps.Log, "registry", err) },
	}
	var group fault.Group
	group.Go(func() { ps.hurry(ctx) })
	group.Go(func() {
		delivery.RunOverdue(ctx, pool.Log, time.Now, delivery.Overdue{Policy: delivery.ToRegistry, Delay: ps.delay, Expire: ps.expire})
	})
	defer group.Wait()
	ps.noteRelay(ctx, ps.deps.Record.EndLeases(ctx, federation.ToPeer)) // leases of a killed replica: only one replica runs this at a time
	pool.Run(ctx, wake)
}

// hurry ends the pauses of registries that sent a message, until ctx ends.
func (ps *Registries) hurry(ctx context.Context) {
	for {
		select {
		case name := <-ps.heard:
			ps.noteRelay(ctx, ps.endPause(ctx, name, time.Now()))
		case <-ctx.Done():
			return
		}
	}
}

// endPause makes a paused registry due. It keeps the failure count.
func (ps *Registries) endPause(ctx context.Context, name string, now time.Time) error {
	paused, err := ps.deps.Record.PeerOutboxes(ctx)
	if err != nil {
		return err
	}
	for _, p := range paused {
		if p.Name != name || !p.Next.After(now) {
			continue
		}
		if err := ps.deps.Record.Rows().Pause(ctx, federation.PeerDestination(name), p.Failures, time.Time{}); err != nil {
			return err
		}
		ps.deps.PubSub.Wake(bridge.RelayTopic)
	}
	return nil
}

func (ps *Registries) open(ctx context.Context, due federation.Destination) (delivery.Destination, error) {
	name := strings.TrimPrefix(due.Name, federation.PeerDestination(""))
	p, err := ps.peer(ctx, name, time.Now())
	to := delivery.Destination{
		Name: due.Name, Policy: delivery.ToRegistry(), Away: due.Failures, Pace: delivery.NewPace(0), Counts: true,
		Log:     ps.deps.Log.With(slog.String("network", wire.Network), slog.String("link", wire.Network), slog.String("peer", name)),
		Deliver: func(ctx context.Context, d federation.Delivery) error { return ps.deliver(ctx, p, err, *d.Document) },
		Ended: func(ctx context.Context, d federation.Delivery, _ int, how federation.Settlement) {
			ps.ended(ctx, *d.Document, how)
		},
		Pause: func(ctx context.Context, failures int, next time.Time) error {
			if failures == 0 {
				next = time.Time{}
			}
			return ps.deps.Record.Rows().Pause(ctx, due.Name, failures, next)
		},
	}
	if err == nil {
		to.Pace = ps.pace(name, p.perMin)
	}
	return to, ctx.Err()
}

func (ps *Registries) delay(ctx context.Context, before, now time.Time, limit int) (int, error) {
	slow, err := ps.deps.Record.Slow(ctx, before, limit)
	for i, row := range slow {
		if err := ps.deps.Notify(ctx, row, noticeDelayed, row.Reason, now); err != nil {
			return i, err
		}
		if err := ps.deps.Record.Delayed(ctx, row.Row, now); err != nil {
			return i, err
		}
	}
	return len(slow), err
}

// expire abandons at most limit deliveries to each registry. It returns the largest number for one
// registry.
func (ps *Registries) expire(ctx context.Context, before, now time.Time, limit int) (most int, err error) {
	peers, err := ps.deps.Record.PeerOutboxes(ctx)
	if err != nil {
		return 0, err
	}
	for _, p := range peers {
		how := federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadExpired, At: now}
		queued := before
		if _, federated := ps.Exchanges(p.Name); !federated {
			how.Dead, how.Why, queued = federation.DeadRefused, string(wire.CodeFederationBlocked), time.Time{}
		}
		rows, err := ps.deps.Record.PeerQueue(ctx, p.Name, queued, limit)
		if err != nil {
			return most, err
		}
		for _, row := range rows {
			if how.Dead == federation.DeadExpired {
				how.Why = cmp.Or(row.Reason, "it did not answer for a week")
			}
			if err := ps.deps.Record.Rows().Settle(ctx, federation.PeerDestination(p.Name), []int64{row.Row}, how); err != nil {
				return most, err
			}
			ps.ended(ctx, row, how)
		}
		most = max(most, len(rows))
	}
	return most, nil
}

func (ps *Registries) peerLabel(domain string) string {
	if slices.ContainsFunc(ps.deps.Peers, func(p Config) bool { return p.Domain == domain }) {
		return domain
	}
	return bridge.OtherPeers
}

// Backlogs returns the queue of each registry.
func (ps *Registries) Backlogs(ctx context.Context) ([]federation.PeerBacklog, error) {
	kept, err := ps.deps.Record.PeerBacklogs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read queues of registries: %w", err)
	}
	var all []federation.PeerBacklog
	for _, p := range ps.deps.Peers {
		all = append(all, federation.PeerBacklog{Peer: p.Domain})
	}
	for _, b := range kept {
		b.Peer = ps.peerLabel(b.Peer)
		i := slices.IndexFunc(all, func(sum federation.PeerBacklog) bool { return sum.Peer == b.Peer })
		if i < 0 {
			all = append(all, b)
			continue
		}
		sum := &all[i]
		if sum.Rows == 0 || b.Rows > 0 && b.Oldest.Before(sum.Oldest) {
			sum.Oldest = b.Oldest
		}
		sum.Rows, sum.Dead = sum.Rows+b.Rows, sum.Dead+b.Dead
	}
	return all, nil
}
