package server

import (
	"context"
	"log/slog"
	"net"
	"time"

	"baton/bridge"
	"baton/bridge/httpd"
	"baton/federation"
)

// Run starts the links, and serves until ctx ends, or a listener does.
func (p *Server) Run(ctx context.Context) error {
	if err := p.Start(ctx); err != nil {
		return err
	}
	return p.Serve(ctx)
}

// Start starts the links, which readiness asks from then on. Call it before [Server.Serve].
func (p *Server) Start(ctx context.Context) error {
	links, err := OpenLinks(p.file, p.options.Networks, p.Wiring())
	if err != nil {
		return err
	}
	if links, err = p.homes.added.Join(ctx, links); err != nil {
		return err
	}
	p.configure(p.file, links)
	p.Gateway.MeasureGrowth(ctx, time.Now()) // before the first client is served
	p.openAccess("rest").MountOAuth(p.publicMux)
	for _, o := range links {
		if mounted, ok := o.Link.(bridge.Mounted); ok {
			mounted.Mount(p.publicMux)
		}
	}
	p.apply(ctx, links)
	return nil
}

// Serve answers requests and does the work of the gateway until ctx ends, or a listener does.
func (p *Server) Serve(ctx context.Context) error { return p.Gateway.Run(ctx, p.tasks(ctx)...) }

// apply makes these links the ones that run, and registers the routes of links that a reload may
// replace, each once.
func (p *Server) apply(ctx context.Context, links []Entry) {
	for _, o := range links {
		served, ok := o.Link.(bridge.Served)
		if ok && !p.served[served.Pattern()] {
			p.served[served.Pattern()] = true
			p.publicMux.Handle(served.Pattern(), p.Gateway.Links())
		}
	}
	p.Gateway.Links().Apply(ctx, links)
}

// tasks returns the tasks beside the gateway: the listeners, and the ones that the configuration turns on.
func (p *Server) tasks(ctx context.Context) []Task {
	tasks := []Task{p.Gateway.Announce(p.Ready), p.end, func(ctx context.Context) error { p.homes.peering.Run(ctx); return nil }}
	for name, server := range map[string]*httpd.Server{"public": p.public, "admin": p.admin, "socket": p.socket} {
		if server != nil {
			p.log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("listener", name), slog.String("address", server.Addr().String()))
			tasks = append(tasks, server.Serve)
		}
	}
	if p.hub != nil {
		meet := func(ctx context.Context) { p.hub.Run(ctx, p.homes.handler(), p.homes.peers) }
		tasks = append(tasks, p.Gateway.Exclusive(HomesLease, meet))
	}
	if p.hooks != nil {
		tasks = append(tasks, p.Gateway.Exclusive(WebhookLease, p.hooks.Run))
	}
	if shared(p.file) {
		tasks = append(tasks, func(ctx context.Context) error { p.Gateway.FollowReplicas(ctx, p.takeUp); return nil })
	}
	if p.reloads != nil {
		tasks = append(tasks, func(ctx context.Context) error { p.reloads.Run(ctx, p.options.Hangups, p.log); return nil })
	}
	return tasks
}

// end notifies the service manager and all waiters of the shutdown.
func (p *Server) end(ctx context.Context) error {
	<-ctx.Done()
	p.lookups.Stop()
	close(p.ended)
	p.Gateway.AnnounceEnd(context.WithoutCancel(ctx))
	return nil
}

// URL returns the public address of the server.
func (p *Server) URL() string { return p.publicURL }

// AdminAddr returns the address of the listener for operators; nil if the configuration has none.
func (p *Server) AdminAddr() net.Addr {
	if p.admin == nil {
		return nil
	}
	return p.admin.Addr()
}

// Keys returns the keys of all signers.
func (p *Server) Keys() federation.KeySource { return p.keys.Load() } //nolint:ireturn // a rotation replaces it
