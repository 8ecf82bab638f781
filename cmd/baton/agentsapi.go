package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi"
	"baton/bridge/airc"
	"baton/bridge/credential"
	"baton/bridge/operatorapi"
	"baton/configs"
	"baton/federation"
	"baton/federation/agents"
)

// agentsAPI is what only a running gateway has for the REST API of agents.
type agentsAPI struct {
	passport func(ctx context.Context, view federation.View, now time.Time) (operatorapi.Document, error)
	placers  func() []bridge.Placer
	member   func(ctx context.Context, venue string, did federation.DID) bool
	agent    func(r *http.Request) (agents.Agent, error)
	operator func(r *http.Request) (bool, error)
	rates    didRates
	hooks    bridge.Hooks // nil where the configuration has none
}

func (p *program) agentsAPI() agentsAPI {
	return agentsAPI{
		passport: p.passport, placers: p.gateway.fleet.placers, member: p.gateway.fleet.present, agent: p.gateway.fleet.bearer, operator: p.isOperator,
		rates: didRates{p.rates, p.gateway}, hooks: p.agentHooks(),
	}
}

// agentHooks returns what makes webhooks, nil where the configuration has none.
func (p *program) agentHooks() bridge.Hooks { //nolint:ireturn // a nil pointer in the interface would look like one
	if p.hooks == nil {
		return nil
	}
	return p.hooks
}

func openREST(t configs.Table, w wiring) (opened, error) {
	if !w.rest.Enabled {
		return opened{}, errOff
	}
	link := agentapi.Open(agentapi.Config{MaxWait: w.rest.MaxWait, MaxStreams: w.rest.MaxStreams}, agentapi.Deps{
		Ports: w.Ports, Record: w.record, TokenKey: w.token, Proved: w.proved, MaxBodyBytes: w.maxBody,
		Agent: w.agents.agent, Operator: w.agents.operator,
		Passport: w.agents.passport, Placers: w.agents.placers, Member: w.agents.member,
		Allowance: w.agents.rates.Left, Charge: w.agents.rates.charge, Logins: w.logins,
		Hooks: w.agents.hooks,
		Skills: func(ctx context.Context, did federation.DID) ([]string, error) {
			return skills{w.record}.Declared(ctx, did)
		},
	})
	return opened{link: link, table: t}, nil
}

// isOperator reports whether a request carries the token of an operator who may look.
func (p *program) isOperator(r *http.Request) (bool, error) {
	_, err := operatorapi.Bearers(p.record)(r, federation.ReadScope)
	if _, denied := errors.AsType[*operatorapi.ProblemError](err); denied {
		return false, nil
	}
	return err == nil, err
}

// isMirror reports whether a link is the REST API of agents.
func (f *fleet) isMirror(name string) bool {
	r := f.current.Load().named[name]
	if r == nil {
		return false
	}
	_, api := r.link.(*agentapi.Link)
	return api
}

// bearer returns the agent whose access token a request carries.
func (f *fleet) bearer(r *http.Request) (agents.Agent, error) {
	for _, running := range f.current.Load().all {
		if registry, ok := running.link.(*airc.Link); ok {
			return registry.Bearer(r)
		}
	}
	return agents.Agent{}, credential.ErrToken // there is no registry here
}
