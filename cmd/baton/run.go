package main

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/bridge"
	"baton/bridge/httpd"
)

// readyPoll is how often the start looks whether all is up yet.
const readyPoll = 100 * time.Millisecond

// sweepEvery is how often the home looks for overdue handoffs: they are to end at
// most five seconds late.
const sweepEvery = time.Second

// drainTime is how long links, requests and deliveries may take to end. With [closeTime]
// and the last commit it stays within the ten seconds of the contract.
//
// spec: cli.md "Serving"
const drainTime = 9 * time.Second

// run serves until ctx ends, or a listener does.
func (p *program) run(ctx context.Context) error {
	links, err := openLinks(p.file, p.wiring())
	if err != nil {
		return err
	}
	if links, err = p.withKnown(ctx, links); err != nil {
		return err
	}
	p.configure(p.file, links)
	growth := newWatch(p)
	growth.once(ctx, time.Now()) // before the first client is served
	for _, o := range links {
		if mounted, ok := o.Link.(bridge.Mounted); ok {
			mounted.Mount(p.publicMux)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	servers := map[string]*httpd.Server{"public": p.public, "admin": p.admin, "socket": p.socket}
	maps.DeleteFunc(servers, func(_ string, server *httpd.Server) bool { return server == nil })
	for name, server := range servers {
		p.log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("listener", name), slog.String("address", server.Addr().String()))
	}
	p.apply(ctx, links) // before anybody is answered: /readyz asks the links
	for _, server := range servers {
		group.Go(func() error { return server.Serve(ctx) })
	}
	p.tellManager(ctx, "READY=1") // it serves; what is still down shows in /readyz
	group.Go(func() error { p.announce(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done()
		p.lookups.Stop()
		close(p.ended)
		p.tellManager(context.WithoutCancel(ctx), "STOPPING=1")
		return nil
	})
	if p.hub != nil {
		group.Go(func() error { p.meet(ctx); return nil })
	}
	group.Go(func() error { p.relink(ctx); return nil })
	group.Go(func() error { p.tidy(ctx); return nil })
	group.Go(func() error { growth.run(ctx); return nil })
	group.Go(func() error { p.tellSigners(ctx); return nil })
	group.Go(func() error { p.takeUp(ctx); return nil })
	if p.hooks != nil {
		group.Go(func() error { p.post(ctx); return nil })
	}
	if p.reread != nil {
		group.Go(func() error { p.reloads(ctx); return nil })
	}
	ended := make(chan error, 1)
	go func() {
		err := group.Wait()
		p.gateway.fleet.Stop()
		ended <- err
	}()
	return p.drain(ctx, ended)
}

// drain returns how the gateway ended: at most [drainTime] after ctx has. What runs longer
// than that is left behind, and finds the record closed.
func (p *program) drain(ctx context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		p.log.LogAttrs(ctx, slog.LevelWarn, "not all work has ended in time", slog.Duration("after", drainTime))
		return context.Cause(ctx)
	}
}

// sweep ends what nobody moved in time: at once after the start, and then
// every second.
func (p *program) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := p.gateway.Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelError, "overdue handoffs not expired", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// announce waits until /readyz says yes, and tells the log.
func (p *program) announce(ctx context.Context) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for !p.readiness(ctx).Ready {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	p.log.LogAttrs(ctx, slog.LevelInfo, "ready")
}

func (p *program) tellManager(ctx context.Context, state string) {
	if err := notify(ctx, state); err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "service manager not told", slog.Any("err", err))
	}
}
