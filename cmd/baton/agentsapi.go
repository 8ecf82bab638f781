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
)

// agentsAPI is what only a running gateway has for the REST API of agents.
type agentsAPI struct {
	passports agentapi.Passports
	venues    agentapi.Venues
	agent     func(r *http.Request) (federation.Agent, error)
	operator  func(r *http.Request) (bool, error)
	rates     didRates
	hooks     bridge.Hooks // nil where the configuration has none
}

func (p *program) agentsAPI() agentsAPI {
	return agentsAPI{
		passports: passports{p}, venues: venues{p.gateway.fleet}, agent: p.gateway.fleet.bearer, operator: p.isOperator,
		rates: didRates{p.rates, p.gateway}, hooks: p.agentHooks(),
	}
}

// passports implements [agentapi.Passports].
type passports struct{ *program }

// Passport implements [agentapi.Passports].
func (p passports) Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error) {
	return p.passport(ctx, view, now)
}

// venues implements [agentapi.Venues].
type venues struct{ *fleet }

// Placers implements [agentapi.Venues].
func (v venues) Placers() []bridge.Placer { return v.placers() }

// Member implements [agentapi.Venues].
func (v venues) Member(ctx context.Context, venue string, did federation.DID) bool {
	return v.present(ctx, venue, did)
}

// callers implements [agentapi.Callers].
type callers struct {
	proved   func(ctx context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error)
	agent    func(r *http.Request) (federation.Agent, error)
	operator func(r *http.Request) (bool, error)
}

// Proved implements [agentapi.Callers].
func (c callers) Proved(ctx context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error) {
	return c.proved(ctx, did, message, signature)
}

// Agent implements [agentapi.Callers].
func (c callers) Agent(r *http.Request) (federation.Agent, error) { return c.agent(r) }

// Operator implements [agentapi.Callers].
func (c callers) Operator(r *http.Request) (bool, error) { return c.operator(r) }

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
	r := w.record
	link := agentapi.Open(agentapi.Config{MaxWait: w.rest.MaxWait, MaxStreams: w.rest.MaxStreams}, agentapi.Deps{
		Ports: w.Ports, Handoffs: r, Inbox: r, Answers: r, Notices: r, Sessions: r, Webhooks: r, Steps: r, Skills: skills{r},
		Callers: callers{w.proved, w.agents.agent, w.agents.operator}, Venues: w.agents.venues, Rates: w.agents.rates, Passports: w.agents.passports,
		Hooks: w.agents.hooks, Logins: w.logins, TokenKey: w.token, MaxBodyBytes: w.maxBody,
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
func (f *fleet) bearer(r *http.Request) (federation.Agent, error) {
	for _, running := range f.current.Load().all {
		if registry, ok := running.link.(*airc.Link); ok {
			return registry.Bearer(r)
		}
	}
	return federation.Agent{}, credential.ErrToken // there is no registry here
}
