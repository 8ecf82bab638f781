package peers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"baton/bridge"
	"baton/bridge/airc/wire"
	"baton/federation"
	"baton/federation/fault"
)

// What a sender is told later than the answer to its message.
//
// spec: airc-shapes "A step as payload"
const (
	noticeDelayed       = "delayed"
	noticeDelivered     = "delivered"
	noticeUndeliverable = "undeliverable"
)

// When another registry is asked again.
const (
	relayEvery     = time.Second     // how often it is looked what is due
	relayRecheck   = 5 * time.Second // of what waits: a wake-up may have been lost
	firstPause     = time.Second     // after a registry did not answer; doubles
	longestPause   = time.Minute     // so that all is there within five minutes of its return
	firstConsent   = time.Minute     // after it refused for want of consent; doubles
	longestConsent = time.Hour       // it cannot tell when its agent consented
	delayNotice    = 5 * time.Minute // when a sender is told that it takes time
	relayLife      = 7 * 24 * time.Hour
)

// Limits of a visit.
const (
	relayPage  = 200 // rows read at once for one registry
	ownPerPass = 16  // rows considered per sender and visit
)

// visited is a visit that is over.
type visited struct {
	peer  string
	next  time.Time // time of the next visit
	away  bool      // the registry does not answer; recorded
	fault error     // contained panic, or nil
}

// Run sends what is owed to other registries until ctx ends: to each registry one
// message after the other, to all of them at once. A registry that does not answer
// waits as the record says, also after a restart. What else a visit waits for is known
// only in memory: after a restart a registry may be sent a minute's worth too early,
// which it refuses without having looked at it, and says when to come again.
func (ps *Registries) Run(ctx context.Context) {
	next := map[string]time.Time{} // when to visit answering registries again
	busy := map[string]bool{}      // and whether something came since the visit began
	probes := map[string]bool{}    // waiting registries from which a message arrived
	turns := map[string]*bridge.Turns{}
	done := make(chan visited)
	wake, stop := ps.deps.Wakes.Subscribe(bridge.RelayTopic)
	defer stop()
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	var failed error // a contained panic ends the link after the other visits
	for {
		if failed != nil {
			for range busy {
				<-done
			}
			fault.Again(failed)
		}
		now := time.Now()
		owing := ps.owing(ctx, now)
		maps.DeleteFunc(turns, func(name string, _ *bridge.Turns) bool { // no deliveries are pending for the registry
			_, there := busy[name]
			return !there && !slices.ContainsFunc(owing, func(p federation.PeerOutbox) bool { return p.Name == name })
		})
		for _, p := range owing {
			waits := now.Before(next[p.Name]) || now.Before(p.Next) && !probes[p.Name]
			if _, there := busy[p.Name]; there || waits || ps.withheld(ctx, p.Name) {
				continue
			}
			busy[p.Name] = false
			delete(probes, p.Name)
			own := turns[p.Name]
			if own == nil {
				own = &bridge.Turns{}
				turns[p.Name] = own
			}
			go func() {
				r := visited{peer: p.Name}
				r.fault = fault.Catch(func() error { r = ps.visit(ctx, p, own); return nil })
				done <- r
			}()
		}
		select {
		case r := <-done:
			if r.fault != nil {
				failed = r.fault
				delete(busy, r.peer)
				break
			}
			next[r.peer] = r.next
			if busy[r.peer] && !r.away {
				delete(next, r.peer)
			}
			delete(busy, r.peer)
		case name := <-ps.heard: // one visit, whatever it failed at before
			probes[name] = true
			delete(next, name)
		case <-wake:
			clear(next)
			for name := range busy {
				busy[name] = true
			}
		case <-tick.C:
		case <-ctx.Done():
			for range busy {
				<-done
			}
			return
		}
	}
}

// owing returns the registries that something is owed to, and tells the senders of
// what takes long.
func (ps *Registries) owing(ctx context.Context, now time.Time) []federation.PeerOutbox {
	peers, err := ps.deps.Record.PeerOutboxes(ctx)
	if err == nil {
		err = ps.tellDelays(ctx, now)
	}
	if err != nil && ctx.Err() == nil {
		ps.deps.Log.LogAttrs(ctx, slog.LevelError, "relays not read", slog.String("network", wire.Network), slog.String("link", wire.Network), slog.Any("err", err))
	}
	return peers
}

// withheld reports whether an operator keeps messages to a registry back. What cannot be
// read now is kept back too.
func (ps *Registries) withheld(ctx context.Context, name string) bool {
	_, held, err := ps.deps.Record.Held(ctx, name)
	ps.noteRelay(ctx, err)
	return held || err != nil
}

// pauseAfter returns how long to wait after so many failures: each time twice as long,
// and never quite as long as others wait.
func pauseAfter(failures int, first, longest time.Duration) time.Duration {
	pause := min(longest, first<<min(max(failures-1, 0), 16))
	return pause - rand.N(pause/4+1) //nolint:gosec // G404: spreads load, and keeps no secret
}

// round is one visit to a registry.
type round struct {
	name  string
	peer  Peer
	err   error           // why nothing is known of the registry
	waits map[string]bool // lanes in which an earlier message has not arrived
	done  map[int64]bool  // processed rows
	again time.Time       // when to come again
}

// visit sends what is due to one registry, and notes whether it answered.
func (ps *Registries) visit(ctx context.Context, p federation.PeerOutbox, turns *bridge.Turns) visited {
	again, away := ps.deliverDue(ctx, p.Name, turns)
	switch {
	case ctx.Err() != nil:
	case away:
		p.Failures++
		if pause := time.Now().Add(pauseAfter(p.Failures, firstPause, longestPause)); again.Before(pause) {
			again = pause
		}
		p.Next = again
		ps.noteRelay(ctx, ps.deps.Record.Pause(ctx, p))
	case p.Failures > 0:
		ps.noteRelay(ctx, ps.deps.Record.Pause(ctx, federation.PeerOutbox{Name: p.Name}))
	}
	return visited{peer: p.Name, next: again, away: away}
}

// deliverDue sends the due deliveries of one registry. It returns the time of the next visit and
// whether the registry was unreachable. Senders take turns, so that no sender waits behind all
// messages of another one.
func (ps *Registries) deliverDue(ctx context.Context, name string, turns *bridge.Turns) (again time.Time, away bool) {
	now := time.Now()
	r := &round{name: name, waits: map[string]bool{}, done: map[int64]bool{}, again: now.Add(relayRecheck)}
	r.peer, r.err = ps.peer(ctx, name, now)
	for more := true; more && ctx.Err() == nil; {
		var senders []string
		var own map[string][]federation.PeerDelivery
		var err error
		if senders, own, more, err = ps.queueOf(ctx, r); err != nil {
			ps.noteRelay(ctx, err)
			return now.Add(relayRecheck), false
		}
		for len(senders) > 0 {
			i := turns.Next(senders)
			sender := senders[i]
			row := own[sender][0]
			if own[sender] = own[sender][1:]; len(own[sender]) == 0 {
				senders = slices.Delete(senders, i, i+1)
			}
			r.done[row.Row] = true
			if ps.waits(r, row, time.Now()) {
				continue
			}
			rows, err := ps.deps.Record.PeerDeliveries(ctx, name, row.Row-1, 1)
			if err != nil {
				ps.noteRelay(ctx, err)
				return now.Add(relayRecheck), false
			}
			if len(rows) == 0 || rows[0].Row != row.Row {
				continue
			}
			over, away := ps.pass(ctx, r, rows[0])
			if over || ctx.Err() != nil {
				return r.again, away
			}
			turns.Took(sender)
		}
	}
	return r.again, false
}

// queueOf returns the next eligible rows of each sender, with the senders in the order of their
// first rows. It also reports whether there are more.
func (ps *Registries) queueOf(ctx context.Context, r *round) (senders []string, own map[string][]federation.PeerDelivery, more bool, err error) {
	own = map[string][]federation.PeerDelivery{}
	now := time.Now()
	var after int64
	for {
		rows, err := ps.deps.Record.PeerQueue(ctx, r.name, after, relayPage)
		if err != nil {
			return nil, nil, false, err
		}
		for _, row := range rows {
			after = row.Row
			switch {
			case r.done[row.Row] || ps.waits(r, row, now):
			case len(own[row.Sender]) >= ownPerPass:
				more = true
			default:
				if own[row.Sender] == nil {
					senders = append(senders, row.Sender)
				}
				own[row.Sender] = append(own[row.Sender], row)
			}
		}
		if len(rows) < relayPage {
			return senders, own, more, nil
		}
	}
}

// waits reports whether a row has to wait for its time, or for an earlier row of its lane. An
// expired row never waits.
func (ps *Registries) waits(r *round, row federation.PeerDelivery, now time.Time) bool {
	if _, federated := ps.Exchanges(r.name); r.err != nil || !federated || now.Sub(row.Queued) > relayLife {
		return false
	}
	if row.Next.After(now) {
		r.waits[row.OrderKey] = true
	}
	return r.waits[row.OrderKey]
}

// tellDelays tells the senders of what is under way for long.
func (ps *Registries) tellDelays(ctx context.Context, now time.Time) error {
	slow, err := ps.deps.Record.Slow(ctx, now.Add(-delayNotice), relayPage)
	if err != nil {
		return err
	}
	for _, row := range slow {
		if err := ps.deps.Notify(ctx, row, noticeDelayed, row.Reason, now); err != nil {
			return err
		}
		if err := ps.deps.Record.Delayed(ctx, row.Row, now); err != nil {
			return err
		}
	}
	return nil
}

// peerLabel returns the label of a registry in metrics.
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
