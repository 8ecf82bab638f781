package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi"
	"baton/bridge/operatorapi"
	"baton/bridge/participant"
	"baton/federation"
)

// participantDeps returns what the networks of agents share, beside the ports of each link.
func (p *Server) participantDeps(record boundRecord) participant.Deps {
	return participant.Deps{
		Handoffs: record, Inbox: record, Answers: record, Steps: record, Skills: Capabilities{Record: record},
		Callers: callers{p.Gateway.Links(), operatorapi.Bearers(p.Record)}, Sessions: record, Venues: p.Gateway.Links(), Rates: p.Gateway.Rates(), Passports: passports{p}, Seen: p.Gateway.Seen,
		Streams: &p.streams, Logins: p.logins, TokenKey: p.keyring.Token(),
	}
}

// openAccess returns the operations of participants through a network of this server.
func (p *Server) openAccess(network string) *participant.Access {
	deps := p.participantDeps(p.bound())
	deps.Ports = filePorts(p.file, p.Wiring().Ports)
	return participant.Open(network, deps)
}

// agentsDeps returns what the REST API for agents needs beside the ports of each link.
func (p *Server) agentsDeps(record boundRecord) agentapi.Deps {
	return agentapi.Deps{
		Deps: p.participantDeps(record), Leases: record, Notices: record, Webhooks: record, Hooks: p.agentHooks(),
	}
}

// passports implements [participant.Passports].
type passports struct{ *Server }

// Passport implements [participant.Passports].
func (p passports) Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error) {
	return p.passport(ctx, view, now)
}

// callers implements [participant.Callers].
type callers struct {
	*LinkSet

	operators operatorapi.Admission
}

// Operator implements [participant.Callers]: the token is that of an operator that may read.
func (c callers) Operator(r *http.Request) (bool, error) {
	_, err := c.operators(r, federation.ReadScope)
	if _, denied := errors.AsType[*operatorapi.ProblemError](err); denied {
		return false, nil
	}
	return err == nil, err
}

// agentHooks returns what makes webhooks, nil where the configuration has none.
func (p *Server) agentHooks() bridge.Webhooks { //nolint:ireturn // a nil pointer in the interface would look like one
	if p.hooks == nil {
		return nil
	}
	return p.hooks
}
