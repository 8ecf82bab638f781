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
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.Serve(ctx)
}

// Start starts the links, which readiness asks from then on. Call it before [Server.Serve].
func (s *Server) Start(ctx context.Context) error {
	links, err := OpenLinks(s.file, s.options.Networks, s.Wiring())
	if err != nil {
		return err
	}
	if links, err = s.homes.added.Join(ctx, links); err != nil {
		return err
	}
	s.configure(s.file, links)
	s.Gateway.MeasureGrowth(ctx, time.Now()) // before the first client is served
	s.openAccess("rest").MountOAuth(s.publicMux)
	for _, o := range links {
		if mounted, ok := o.Link.(bridge.Mounted); ok {
			mounted.Mount(s.publicMux)
		}
	}
	s.apply(ctx, links)
	return nil
}

// Serve answers requests and does the work of the gateway until ctx ends, or a listener does.
func (s *Server) Serve(ctx context.Context) error { return s.Gateway.Run(ctx, s.tasks(ctx)...) }

// apply makes these links the ones that run, and registers the routes of links that a reload may
// replace, each once.
func (s *Server) apply(ctx context.Context, links []Entry) {
	for _, o := range links {
		served, ok := o.Link.(bridge.Served)
		if ok && !s.served[served.Pattern()] {
			s.served[served.Pattern()] = true
			s.publicMux.Handle(served.Pattern(), s.Gateway.Links())
		}
	}
	s.Gateway.Links().Apply(ctx, links)
}

// tasks returns the tasks beside the gateway: the listeners, and the ones that the configuration turns on.
func (s *Server) tasks(ctx context.Context) []Task {
	tasks := []Task{s.Gateway.Announce(s.Ready), s.end, func(ctx context.Context) error { s.homes.peering.Run(ctx); return nil }}
	for name, server := range map[string]*httpd.Server{"public": s.public, "admin": s.admin, "socket": s.socket} {
		if server != nil {
			s.log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("listener", name), slog.String("address", server.Addr().String()))
			tasks = append(tasks, server.Serve)
		}
	}
	if s.hub != nil {
		meet := func(ctx context.Context) { s.hub.Run(ctx, s.homes.handler(), s.homes.peers) }
		tasks = append(tasks, s.Gateway.Exclusive(HomesLease, meet))
	}
	if s.hooks != nil {
		tasks = append(tasks, s.Gateway.Exclusive(WebhookLease, s.hooks.Run))
	}
	if shared(s.file) {
		tasks = append(tasks, func(ctx context.Context) error { s.Gateway.FollowReplicas(ctx, s.takeUp); return nil })
	}
	if s.reloads != nil {
		tasks = append(tasks, func(ctx context.Context) error { s.reloads.Run(ctx, s.options.Hangups, s.log); return nil })
	}
	return tasks
}

// end notifies the service manager and all waiters of the shutdown.
func (s *Server) end(ctx context.Context) error {
	<-ctx.Done()
	s.lookups.Stop()
	close(s.ended)
	s.Gateway.AnnounceEnd(context.WithoutCancel(ctx))
	return nil
}

// URL returns the public address of the server.
func (s *Server) URL() string { return s.publicURL }

// AdminAddr returns the address of the listener for operators; nil if the configuration has none.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// Keys returns the keys of all signers.
func (s *Server) Keys() federation.KeySource { return s.keys.Load() } //nolint:ireturn // a rotation replaces it
