package airc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
)

var _ bridge.Introducer = (*Link)(nil)

// Introduce implements [bridge.Introducer] for HANDLE@DOMAIN, where an operator named the registry
// of the domain. An agent that is new here is filed after its registry says that it knows it. An
// unverified sender is filed if a message of it is held.
func (l *Link) Introduce(ctx context.Context, address string) (federation.DID, error) {
	if strings.HasPrefix(address, agents.Unverified) {
		return l.introduceUnverified(ctx, address)
	}
	of, ok := parseAddress(address)
	if !ok || of.domain == l.domain {
		return "", fmt.Errorf("find address: %w", federation.ErrNotFound)
	}
	agent, err := l.deps.Record.Agent(ctx, of.String())
	if err == nil {
		return agent.DID, nil
	}
	if _, federated := l.peerConfig(of.domain); !errors.Is(err, federation.ErrNotFound) || !federated || !l.configured(of.domain) {
		return "", fmt.Errorf("look up agent: %w", err)
	}
	now := time.Now()
	err = l.admitLookup(of.domain, bridge.SubnetFrom(ctx), now)
	if err == nil {
		_, err = l.askIdentity(ctx, of.domain, of.handle, now)
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
func introduction(of remote, err error) error {
	p, ok := errors.AsType[*problem](err)
	switch {
	case !ok:
		return err
	case p.code == codeRemoteIdentityNotFound:
		return fmt.Errorf("%s knows no agent %s: %w", of.domain, of.handle, federation.ErrNotFound)
	case p.code == codeRateLimited:
		return &federation.RefusalError{Code: federation.RateLimited, RetryAfter: p.retryAfter}
	}
	return &federation.UnavailableError{What: "registry " + of.domain, Err: err}
}
