package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/relay"
)

// The duties of a home beside those of its links. The links to other homes share one with
// the hub: an answer comes to whoever reads the stream, and has to be who asked.
const (
	homesDuty = "homes"
	hooksDuty = "webhooks"
	tidyDuty  = "tidy" // what is due by the clock, and not by anybody's word
	linkDuty  = "link "
)

// dutyWait is for how long a gateway that starts does not know yet whether the duty of a
// link is another one's.
const dutyWait = 3 * time.Second

// dutyOf returns the duty of a link.
func dutyOf(link bridge.Link) string {
	if link.Network() == relay.Network {
		return homesDuty
	}
	return linkDuty + link.Name()
}

// duty is whether something is this gateway's to do, of all that serve one home.
type duty struct {
	ours  atomic.Bool
	asked time.Time // set before anybody may ask
}

// elsewhere reports whether another gateway does it.
func (d *duty) elsewhere() bool { return !d.ours.Load() && time.Since(d.asked) > dutyWait }

// supervise runs a link while it is this gateway's, until ctx ends. What is served over
// HTTP is served by each, and what it does beside that by one.
func (f *fleet) supervise(ctx context.Context, r *running) {
	_, mounted := r.link.(bridge.Mounted)
	var group sync.WaitGroup
	if mounted {
		group.Go(func() { f.runLink(ctx, r) })
	}
	_ = f.duties.Alone(ctx, dutyOf(r.link), func(ctx context.Context) { // ends with ctx, and says nothing else
		r.duty.ours.Store(true)
		defer r.duty.ours.Store(false)
		if mounted {
			<-ctx.Done()
			return
		}
		f.runLink(ctx, r)
	})
	group.Wait()
}

// tidy does what is due by the clock while that is this gateway's, until ctx ends.
func (p *program) tidy(ctx context.Context) {
	_ = p.record.Alone(ctx, tidyDuty, func(ctx context.Context) { // likewise
		var group sync.WaitGroup
		for _, each := range []func(context.Context){p.sweep, p.retain, p.judgeAgain, p.watchFeeds} {
			group.Go(func() { each(ctx) })
		}
		group.Wait()
	})
}

// meet reads what other homes send through the hub, while that is this gateway's.
func (p *program) meet(ctx context.Context) {
	_ = p.record.Alone(ctx, homesDuty, func(ctx context.Context) { p.hub.Run(ctx, p.homes.handler(), p.homes.peers) }) // likewise
}

// post calls the addresses that agents named, while that is this gateway's.
func (p *program) post(ctx context.Context) {
	_ = p.record.Alone(ctx, hooksDuty, p.hooks.Run) // likewise
}

// first keeps of the links that show a step once those that count its first attempt with
// it: links of this gateway, which are told. Another one counts when it tries.
func (f *fleet) first(owed federation.Owed, id federation.EventID) federation.Owed {
	var here []string
	for _, name := range owed.Once {
		if r := f.current.Load().named[name]; r != nil && r.duty.ours.Load() {
			r.supervisor.Fresh(id) // before it is filed, when the feed may come upon it at any time
			here = append(here, name)
		}
	}
	owed.Once = here
	return owed
}
