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
func (p *Server) mountAdmin() {
	p.mountOperator(p.socketMux, operatorapi.Everybody)
	p.mountProbes(p.socketMux, nil, nil)
	check := operatorapi.NewTokenCheck(p.Record)
	operator := p.mountOperator(p.adminMux, check.Admit)
	ui := page.New(page.Deps{Home: p.homeID(), API: operator, Tokens: p.Record, Check: check, Log: p.log, Ended: p.ended})
	ui.Mount(p.adminMux)
	withToken := func(h http.Handler) http.Handler { return operator.Admitted(check.Admit, federation.ReadScope, h) }
	guard, guardDebug := withToken, withToken
	if p.admin == nil || operatorapi.IsLoopback(p.admin.Addr()) {
		guard = nil
		if p.file.Admin.Debug != "token" {
			guardDebug = nil
		}
	}
	p.mountProbes(p.adminMux, guard, guardDebug)
}

func (p *Server) mountProbes(mux *http.ServeMux, guard, guardDebug func(http.Handler) http.Handler) {
	probes := operatorapi.Probes{Ready: p.readiness, HomesDown: p.Gateway.Links().HomesDown, Guard: guard, GuardDebug: guardDebug, Standing: func(ctx context.Context) operatorapi.Standing {
		return operatorapi.NewStanding(ctx, p.readiness(ctx), p.parts(), p.Gateway.Links().Statuses())
	}}
	if p.file.Metrics.Enabled {
		probes.Metrics = promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{})
	}
	probes.Mount(mux)
}

// readiness returns what the gateway cannot do now. The state of other operators' homes and
// registries is no part of it.
func (p *Server) readiness(ctx context.Context) contract.Readiness {
	return operatorapi.Readiness(ctx, p.parts(), p.Gateway.Links().Down())
}

// Ready reports whether the gateway can do its job now.
func (p *Server) Ready(ctx context.Context) bool { return p.readiness(ctx).Ready }

// parts returns the parts without which the gateway is not ready.
func (p *Server) parts() []operatorapi.Part {
	parts := []operatorapi.Part{
		{Name: "record", Check: p.Record.Ready},
		{Name: "disk", Check: func(context.Context) error { return engine.CheckRoom(p.file.Path(".")) }},
		{Name: "relay", Check: func(context.Context) error { return p.relay.Ready() }},
	}
	if p.hub != nil {
		parts = append(parts, operatorapi.Part{Name: "hub", Check: func(context.Context) error { return p.hub.Ready() }})
	}
	return parts
}
