package server

import (
	"context"
	"errors"
	"fmt"
	"net"

	"baton/bridge/airc"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
)

// registries asks other AIRC registries through the guarded client.
type registries struct{ client *identity.Client }

var _ airc.Fetcher = registries{}

// Get implements [airc.Fetcher].
func (r registries) Get(ctx context.Context, address string) ([]byte, error) {
	text, err := r.client.Get(ctx, address)
	return text, inAIRC(err)
}

// Post implements [airc.Fetcher].
func (r registries) Post(ctx context.Context, address string, body []byte) (airc.Reply, error) {
	answer, err := r.client.Post(ctx, address, body)
	return airc.Reply{Status: answer.Status, Body: answer.Body, RetryAfter: answer.RetryAfter}, inAIRC(err)
}

// inAIRC says in the words of package airc what is wrong with an answer.
func inAIRC(err error) error {
	switch {
	case errors.Is(err, identity.ErrTooLarge):
		return errors.Join(airc.ErrTooLarge, err)
	case errors.Is(err, identity.ErrNotAllowed):
		return errors.Join(airc.ErrElsewhere, err)
	}
	return err
}

// TXT implements [airc.Fetcher]. A name without texts is no error.
func (r registries) TXT(ctx context.Context, name string) ([]string, error) {
	texts, err := net.DefaultResolver.LookupTXT(ctx, name)
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, &federation.UnavailableError{What: "DNS of " + name, Err: fmt.Errorf("look up texts: %w", err)}
	}
	return texts, nil
}

// registryDeps returns what the AIRC registry needs beside the ports of each link.
func (s *Server) registryDeps(record boundRecord) airc.Deps {
	return airc.Deps{
		Registry: airc.Registry{
			Agents: record, Keys: record, Sessions: record, Messages: record, Mail: record, Threads: record, Consents: record, Relays: record,
			Names: record, Originals: record, Inboxes: record,
		},
		Identity: s.homeKeys(), Operators: s.modes, Quotas: registryQuotas{s},
		Rates: s.Gateway.Rates(), Strangers: s.Gateway, Callers: s.Gateway.Links(), Hooks: s.agentHooks(),
		Fetch: registries{s.peering}, Issuer: registries{s.client}, TokenKey: s.keyring.Token(), Authorities: clientPools(s.file), Logins: s.logins, Writes: s.writes,
		RunExclusive: func(ctx context.Context, do func(context.Context)) {
			_ = s.Record.RunExclusive(ctx, LinkLease(agents.Link), do) // its error is the end of ctx
		},
	}
}

// registryQuotas implements [airc.Quotas].
type registryQuotas struct{ p *Server }

// Room implements [airc.Quotas].
func (q registryQuotas) Room() federation.InboxLimits { return q.p.Gateway.Home().Limits.Inbox }

// FirstContacts implements [airc.Quotas].
func (q registryQuotas) FirstContacts() federation.InboxLimits { return *q.p.firstContacts.Load() }

// RegistrationsPerHour implements [airc.Quotas].
func (q registryQuotas) RegistrationsPerHour() int { return int(q.p.registrations.Load()) }
