package main

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/configs"
	"baton/federation"
	"baton/federation/relay"
	"baton/federation/store/registry"
)

// opened is one link with the table that it was made from.
type opened struct {
	link  bridge.Link
	table configs.Table
}

// added reports whether a link is to a home that an operator added while a gateway ran.
func (o opened) added() bool {
	_, isHome := o.link.(*relay.Peer)
	return isHome && o.table.Equal(configs.Table{})
}

// same reports whether a link was made as another one of its name.
func (o opened) same(other opened) bool {
	if !o.table.Equal(other.table) {
		return false
	}
	peer, isHome := o.link.(*relay.Peer)
	before, wasHome := other.link.(*relay.Peer)
	return !isHome && !wasHome || isHome && wasHome && peer.URL() == before.URL() && peer.Path() == before.Path()
}

// running is a link that its supervisor keeps running.
type running struct {
	opened
	supervisor *bridge.Supervisor
	duty       duty
	stop       context.CancelFunc
	done       chan struct{}
}

// fleet is the links of one gateway. One goroutine applies configurations to it;
// any may read.
type fleet struct {
	feeds   federation.Feeds
	duties  federation.Duties
	wakes   bridge.Wakes
	metrics *bridge.Metrics
	log     *slog.Logger
	current atomic.Pointer[roll]
	// owes returns the names of the homes that are owed a step; nil for none ever.
	owes func(ctx context.Context, ev federation.Event, after federation.View) ([]string, error)
	// lost is told of a link whose connection has ended; nil where that ends nothing else.
	lost func(link string)
}

func newFleet(record *registry.Record, wakes bridge.Wakes, m *bridge.Metrics, log *slog.Logger) *fleet {
	f := &fleet{feeds: record, duties: record, wakes: wakes, metrics: m, log: log}
	f.current.Store(newRoll(nil))
	return f
}

// apply makes these links the ones that run: those that are gone or changed end,
// those whose table is as it was go on as they are.
func (f *fleet) apply(ctx context.Context, links []opened) {
	before := map[string]*running{}
	for _, r := range f.current.Load().all {
		before[r.link.Name()] = r
	}
	var after, fresh []*running
	for _, o := range links {
		if old, ok := before[o.link.Name()]; ok && old.same(o) {
			delete(before, o.link.Name())
			after = append(after, old)
			continue
		}
		r := &running{
			opened: o, supervisor: bridge.NewSupervisor(o.link, f.feeds, f.wakes, f.metrics, f.log),
			duty: duty{asked: time.Now()}, done: make(chan struct{}),
		}
		if f.lost != nil {
			r.supervisor.OnLoss(func() { f.lost(o.link.Name()) })
		}
		after, fresh = append(after, r), append(fresh, r)
	}
	for _, old := range before {
		old.stop()
		<-old.done
	}
	f.current.Store(newRoll(after))
	for _, r := range fresh {
		f.start(ctx, r)
	}
}

func (f *fleet) start(ctx context.Context, r *running) {
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		f.supervise(ctx, r)
	}()
}

// runLink runs a link until ctx ends.
func (f *fleet) runLink(ctx context.Context, r *running) {
	f.log.LogAttrs(ctx, slog.LevelInfo, "link starts", slog.String("network", r.link.Network()), slog.String("link", r.link.Name()))
	_ = r.supervisor.Run(ctx) // ends with ctx, and says nothing else
	if closer, ok := r.link.(io.Closer); ok {
		_ = closer.Close() // a port that it held between two sessions
	}
}

// end stops all links and waits for them.
func (f *fleet) end() {
	for _, r := range f.current.Load().all {
		r.stop()
	}
	for _, r := range f.current.Load().all {
		<-r.done
	}
}

// mounted returns the links that are served by the HTTP listener.
func (f *fleet) mounted() []opened {
	var links []opened
	for _, r := range f.current.Load().all {
		if _, ok := r.link.(bridge.Mounted); ok {
			links = append(links, r.opened)
		}
	}
	return links
}

// placers returns the links on which offers from other networks can be written,
// in the order of the configuration.
func (f *fleet) placers() []bridge.Placer { return f.current.Load().placers }

// present reports whether somebody who proved a DID is in a channel now, on any link.
func (f *fleet) present(ctx context.Context, venue string, did federation.DID) bool {
	return slices.ContainsFunc(f.placers(), func(p bridge.Placer) bool {
		gatherer, ok := p.(bridge.Gatherer)
		return ok && gatherer.Present(ctx, venue, did)
	})
}

// isHome reports whether a link is the one to another home.
func (f *fleet) isHome(name string) bool {
	return f.current.Load().peer(federation.HomeID(name)) != nil
}

// Owed implements [federation.Routes].
func (f *fleet) Owed(ctx context.Context, ev federation.Event, after federation.View) (federation.Owed, error) {
	owed, err := f.current.Load().asked.Owed(ctx, ev, after)
	if err == nil && f.owes != nil {
		var homes []string
		homes, err = f.owes(ctx, ev, after)
		owed.Feeds = append(owed.Feeds, homes...)
	}
	return f.first(owed, ev.ID), err
}

// heard tells the feed of a link that a step came by it: what waits there may get
// through now.
func (f *fleet) heard(ev federation.Event) {
	if r := f.current.Load().named[ev.Arrival.Link]; r != nil {
		r.supervisor.Heard(ev.Actor())
	}
}

// down returns the names of the links that are not up, and not another gateway's, in the
// order of the configuration.
func (f *fleet) down() []string {
	var names []string
	for _, r := range f.current.Load().all {
		if !r.supervisor.Up() && !r.duty.elsewhere() {
			names = append(names, r.link.Name())
		}
	}
	return names
}
