package server

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/page"
	"baton/federation"
	"baton/federation/store/engine"
)

// mountAdmin registers the operator API and the probes on the socket, and on admin.listen for
// callers with a token, with the operator page. Beyond loopback, profiles and metrics also require
// a token. With admin.debug = "token", profiles require one on loopback too.
func (s *Server) mountAdmin() {
	s.mountOperator(s.socketMux, operatorapi.Everybody)
	s.mountProbes(s.socketMux, nil, nil)
	check := operatorapi.NewTokenCheck(s.Record)
	operator := s.mountOperator(s.adminMux, check.Admit)
	ui := page.New(page.Deps{Home: s.homeID(), API: operator, Tokens: s.Record, Check: check, Log: s.log, Ended: s.ended})
	ui.Mount(s.adminMux)
	withToken := func(h http.Handler) http.Handler { return operator.Admitted(check.Admit, federation.ReadScope, h) }
	guard, guardDebug := withToken, withToken
	if s.admin == nil || operatorapi.IsLoopback(s.admin.Addr()) {
		guard = nil
		if s.file.Admin.Debug != "token" {
			guardDebug = nil
		}
	}
	s.mountProbes(s.adminMux, guard, guardDebug)
}

func (s *Server) mountProbes(mux *http.ServeMux, guard, guardDebug func(http.Handler) http.Handler) {
	probes := operatorapi.Probes{Ready: s.readiness, HomesDown: s.Gateway.Links().HomesDown, Guard: guard, GuardDebug: guardDebug, Standing: func(ctx context.Context) operatorapi.Standing {
		return operatorapi.NewStanding(ctx, s.readiness(ctx), s.parts(), s.Gateway.Links().Statuses())
	}}
	if s.file.Metrics.Enabled {
		probes.Metrics = promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{})
	}
	probes.Mount(mux)
}

// readiness returns what the gateway cannot do now. The state of other operators' homes and
// registries is no part of it.
func (s *Server) readiness(ctx context.Context) contract.Readiness {
	return operatorapi.Readiness(ctx, s.parts(), s.Gateway.Links().Down())
}

// Ready reports whether the gateway can do its job now.
func (s *Server) Ready(ctx context.Context) bool { return s.readiness(ctx).Ready }

// parts returns the parts without which the gateway is not ready.
func (s *Server) parts() []operatorapi.Part {
	parts := []operatorapi.Part{
		{Name: "record", Check: s.Record.Ready},
		{Name: "disk", Check: func(context.Context) error { return engine.CheckRoom(s.file.Path(".")) }},
		{Name: "relay", Check: func(context.Context) error { return s.relay.Ready() }},
	}
	if s.hub != nil {
		parts = append(parts, operatorapi.Part{Name: "hub", Check: func(context.Context) error { return s.hub.Ready() }})
	}
	return parts
}
