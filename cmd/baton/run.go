package main

import (
	"context"
	"log/slog"
	"time"

	"baton/bridge"
	"baton/bridge/httpd"
	"baton/bridge/server"
)

// run serves until ctx ends, or a listener does.
func (p *program) run(ctx context.Context) error {
	if err := p.start(ctx); err != nil {
		return err
	}
	return p.serve(ctx)
}

// start starts the links, which readiness asks from then on. It is called before serve.
func (p *program) start(ctx context.Context) error {
	links, err := openLinks(p.file, p.wiring())
	if err != nil {
		return err
	}
	if links, err = p.homes.added.Join(ctx, links); err != nil {
		return err
	}
	p.configure(p.file, links)
	p.gateway.MeasureGrowth(ctx, time.Now()) // before the first client is served
	p.openAccess("rest").MountOAuth(p.publicMux)
	for _, o := range links {
		if mounted, ok := o.Link.(bridge.Mounted); ok {
			mounted.Mount(p.publicMux)
		}
	}
	p.apply(ctx, links)
	return nil
}

// serve answers requests and does the work of the gateway until ctx ends, or a listener does.
func (p *program) serve(ctx context.Context) error { return p.gateway.Run(ctx, p.tasks(ctx)...) }

// apply makes these links the ones that run, and registers the routes of links that a reload may
// replace, each once.
func (p *program) apply(ctx context.Context, links []server.Entry) {
	for _, o := range links {
		served, ok := o.Link.(bridge.Served)
		if ok && !p.served[served.Pattern()] {
			p.served[served.Pattern()] = true
			p.publicMux.Handle(served.Pattern(), p.gateway.Links())
		}
	}
	p.gateway.Links().Apply(ctx, links)
}

// tasks returns what runs beside the gateway: the listeners, and what the configuration has.
func (p *program) tasks(ctx context.Context) []server.Task {
	tasks := []server.Task{p.gateway.Announce(p.isReady), p.end, func(ctx context.Context) error { p.homes.peering.Run(ctx); return nil }}
	for name, server := range map[string]*httpd.Server{"public": p.public, "admin": p.admin, "socket": p.socket} {
		if server != nil {
			p.log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("listener", name), slog.String("address", server.Addr().String()))
			tasks = append(tasks, server.Serve)
		}
	}
	if p.hub != nil {
		meet := func(ctx context.Context) { p.hub.Run(ctx, p.homes.handler(), p.homes.peers) }
		tasks = append(tasks, p.gateway.Exclusive(server.HomesLease, meet))
	}
	if p.hooks != nil {
		tasks = append(tasks, p.gateway.Exclusive(server.WebhookLease, p.hooks.Run))
	}
	if shared(p.file) {
		tasks = append(tasks, func(ctx context.Context) error { p.gateway.FollowReplicas(ctx, p.takeUp); return nil })
	}
	if p.reloads != nil {
		tasks = append(tasks, func(ctx context.Context) error { p.reloads.Run(ctx, p.hups, p.log); return nil })
	}
	return tasks
}

// end tells the service manager and all that waits for the gateway that it ends.
func (p *program) end(ctx context.Context) error {
	<-ctx.Done()
	p.lookups.Stop()
	close(p.ended)
	p.gateway.AnnounceEnd(context.WithoutCancel(ctx))
	return nil
}
