package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi"
	"baton/bridge/gateway"
	"baton/bridge/operatorapi"
	"baton/federation"
)

// agentsDeps returns what the REST API for agents needs beside the ports of each link.
func (p *program) agentsDeps(record boundRecord) agentapi.Deps {
	return agentapi.Deps{
		Handoffs: record, Inbox: record, Answers: record, Notices: record, Sessions: record, Webhooks: record, Steps: record, Skills: gateway.Capabilities{Record: record},
		Callers: callers{p.gateway.Links(), operatorapi.Bearers(p.record)}, Venues: p.gateway.Links(), Rates: p.gateway.Rates(), Passports: passports{p},
		Hooks: p.agentHooks(), Logins: p.logins, TokenKey: p.keyring.Token(),
	}
}

// passports implements [agentapi.Passports].
type passports struct{ *program }

// Passport implements [agentapi.Passports].
func (p passports) Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error) {
	return p.passport(ctx, view, now)
}

// callers implements [agentapi.Callers].
type callers struct {
	*gateway.LinkSet

	operators operatorapi.Admission
}

// Operator implements [agentapi.Callers]: the token is that of an operator that may read.
func (c callers) Operator(r *http.Request) (bool, error) {
	_, err := c.operators(r, federation.ReadScope)
	if _, denied := errors.AsType[*operatorapi.ProblemError](err); denied {
		return false, nil
	}
	return err == nil, err
}

// agentHooks returns what makes webhooks, nil where the configuration has none.
func (p *program) agentHooks() bridge.Webhooks { //nolint:ireturn // a nil pointer in the interface would look like one
	if p.hooks == nil {
		return nil
	}
	return p.hooks
}
