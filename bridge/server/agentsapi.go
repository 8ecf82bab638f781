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
func (s *Server) participantDeps(record boundRecord) participant.Deps {
	return participant.Deps{
		Handoffs: record, Inbox: record, Answers: record, Steps: record, Skills: Capabilities{Record: record},
		Callers: callers{s.Gateway.Links(), operatorapi.Bearers(s.Record)}, Sessions: record, Venues: s.Gateway.Links(), Rates: s.Gateway.Rates(), Passports: passports{s}, Seen: s.Gateway.Seen,
		Streams: &s.streams, Logins: s.logins, TokenKey: s.keyring.Token(),
	}
}

// openAccess returns the operations of participants through a network of this server.
func (s *Server) openAccess(network string) *participant.Access {
	deps := s.participantDeps(s.bound())
	deps.Ports = filePorts(s.file, s.Wiring().Ports)
	return participant.Open(network, deps)
}

// agentsDeps returns what the REST API for agents needs beside the ports of each link.
func (s *Server) agentsDeps(record boundRecord) agentapi.Deps {
	return agentapi.Deps{
		Deps: s.participantDeps(record), Leases: record, Notices: record, Webhooks: record, Hooks: s.agentHooks(),
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
func (s *Server) agentHooks() bridge.Webhooks { //nolint:ireturn // a nil pointer in the interface would look like one
	if s.hooks == nil {
		return nil
	}
	return s.hooks
}
