package airc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/airc/peers"
	"baton/bridge/airc/wire"
	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
)

// getFederationIdentity answers GET /federation/identity: an agent of this registry, or of
// another one, as that registry tells of it.
func (l *Link) getFederationIdentity(c *call) (answer, error) {
	if l.cfg.Federation == peers.FederationOff {
		return answer{}, peers.ErrBlocked()
	}
	query, now := c.URL.Query(), time.Now()
	handle := wire.PlainHandle(query.Get("handle"))
	if !wire.WellFormed(handle) {
		return answer{}, wire.Refuse(wire.CodeBadRequest, "Invalid handle format")
	}
	registry := wire.LowerASCII(query.Get("registry"))
	if registry == "" || registry == l.domain {
		who, err := known(l.find(c.Context(), handle))
		if err != nil {
			return answer{}, federationRefusal(err)
		}
		return answer{status: http.StatusOK, body: wire.Members{"success": true, "identity": l.identifyDeployed(who, now)}}, nil
	}
	if err := l.peers.AdmitLookup(registry, credential.AddressOf(c.Request), now); err != nil {
		return answer{}, err
	}
	who, err := l.peers.Identity(c.Context(), registry, handle, now)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: wire.Members{"success": true, "registry": registry, "identity": who}}, nil
}

// getFederationPresence answers GET /federation/presence: the agents that anyone may see,
// here or at another registry, or with a handle the presence of that agent elsewhere.
func (l *Link) getFederationPresence(c *call) (answer, error) {
	if l.cfg.Federation == peers.FederationOff {
		return answer{}, peers.ErrBlocked()
	}
	query, now := c.URL.Query(), time.Now()
	registry := wire.LowerASCII(query.Get("registry"))
	if registry == "" || registry == l.domain {
		seen := []presence{}
		for _, who := range l.presences.list(now, viewer{}.seesPresence) {
			seen = append(seen, who.describe(viewer{}))
		}
		return answer{status: http.StatusOK, body: wire.Members{"success": true, "registry": l.domain, "presence": seen, "count": len(seen)}}, nil
	}
	handle := wire.PlainHandle(query.Get("handle"))
	if handle != "" && !wire.WellFormed(handle) {
		return answer{}, wire.Refuse(wire.CodeBadRequest, "Invalid handle format")
	}
	if err := l.peers.AdmitLookup(registry, credential.AddressOf(c.Request), now); err != nil {
		return answer{}, err
	}
	seen, err := l.peers.Presence(c.Context(), registry, handle, now)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: wire.Members{"success": true, "registry": registry, "presence": seen, "count": len(seen)}}, nil
}

var _ bridge.Introducer = (*Link)(nil)

// Introduce implements [bridge.Introducer] for HANDLE@DOMAIN, where an operator named the registry
// of the domain. An agent that is new here is filed after its registry says that it knows it. An
// unverified sender is filed if a message of it is held.
func (l *Link) Introduce(ctx context.Context, address string) (federation.DID, error) {
	if strings.HasPrefix(address, agents.Unverified) {
		return l.introduceUnverified(ctx, address)
	}
	of, ok := wire.ParseAddress(address)
	if !ok || of.Domain == l.domain {
		return "", fmt.Errorf("find address: %w", federation.ErrNotFound)
	}
	agent, err := l.deps.Record.Agent(ctx, of.String())
	if err == nil {
		return agent.DID, nil
	}
	if _, federated := l.peers.Exchanges(of.Domain); !errors.Is(err, federation.ErrNotFound) || !federated || !l.peers.Configured(of.Domain) {
		return "", fmt.Errorf("look up agent: %w", err)
	}
	now := time.Now()
	err = l.peers.AdmitLookup(of.Domain, bridge.SubnetFrom(ctx), now)
	if err == nil {
		_, err = l.peers.Identity(ctx, of.Domain, of.Handle, now)
	}
	if err != nil {
		return "", introduction(of, err)
	}
	agent, err = l.acquaint(ctx, of.String(), now)
	return agent.DID, err
}

// introduceUnverified returns the DID of an unverified sender.
func (l *Link) introduceUnverified(ctx context.Context, handle string) (federation.DID, error) {
	agent, err := l.deps.Record.Agent(ctx, handle)
	if !errors.Is(err, federation.ErrNotFound) {
		return agent.DID, err
	}
	held, err := l.deps.Record.HeldRelays(ctx, handle, "", 0, 1)
	if err == nil && len(held) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", handle, err)
	}
	agent, err = l.acquaint(ctx, handle, time.Now())
	return agent.DID, err
}

// introduction returns the error of a look-up as one of the federation.
func introduction(of wire.Address, err error) error {
	p, ok := errors.AsType[*wire.Problem](err)
	switch {
	case !ok:
		return err
	case p.Code == wire.CodeRemoteIdentityNotFound:
		return fmt.Errorf("%s knows no agent %s: %w", of.Domain, of.Handle, federation.ErrNotFound)
	case p.Code == wire.CodeRateLimited:
		return &federation.RefusalError{Code: federation.RateLimited, RetryAfter: p.RetryAfter}
	}
	return &federation.UnavailableError{What: "registry " + of.Domain, Err: err}
}
