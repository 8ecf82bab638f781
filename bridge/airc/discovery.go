package airc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

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

// Introduce implements [bridge.Introducer] for HANDLE@DOMAIN, if an operator configured the registry of
// the domain.
func (l *Link) Introduce(ctx context.Context, address string) (federation.DID, error) {
	if strings.HasPrefix(address, agents.Unverified) {
		agent, err := l.deps.Record.Agent(ctx, address)
		if !errors.Is(err, federation.ErrNotFound) {
			return agent.DID, err
		}
		held, err := l.deps.Record.HeldRelays(ctx, address, "", 0, 1)
		if err == nil && len(held) == 0 {
			err = federation.ErrNotFound
		}
		if err != nil {
			return "", fmt.Errorf("look up %s: %w", address, err)
		}
		agent, err = l.acquaint(ctx, address, time.Now())
		return agent.DID, err
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

func introduction(of wire.Address, err error) error {
	p, ok := errors.AsType[*wire.ProblemError](err)
	switch {
	case !ok:
		return err
	case p.Code == wire.CodeRemoteIdentityNotFound:
		return fmt.Errorf("%s has no agent %s: %w", of.Domain, of.Handle, federation.ErrNotFound)
	case p.Code == wire.CodeRateLimited:
		return &federation.RefusalError{Code: federation.RateLimited, RetryAfter: p.RetryAfter}
	}
	return &federation.UnavailableError{What: "registry " + of.Domain, Err: err}
}

func (l *Link) mountFederation(mux *http.ServeMux) {
	l.mount(mux, map[string]endpoint{
		"GET /.well-known/airc":        l.getWellKnown,
		"POST /federation/relay":       l.postRelay,
		"POST /api/federation/relay":   l.postRelay,
		"POST /federation/consent":     l.postFederationConsent,
		"GET /federation/identity":     l.getFederationIdentity,
		"GET /api/federation/identity": l.getFederationIdentity,
		"GET /federation/presence":     l.getFederationPresence,
	})
}

// getWellKnown repeats some members, because registries and clients expect them in different places.
func (l *Link) getWellKnown(*call) (answer, error) {
	allowed, blocked := []string{}, []string{}
	for _, peer := range l.cfg.Peers {
		if peer.Mode == peers.ModeBlock {
			blocked = append(blocked, peer.Domain)
		} else {
			allowed = append(allowed, peer.Domain)
		}
	}
	enabled := l.cfg.Federation != peers.FederationOff && l.deps.Fetch != nil
	paths := wire.Members{
		"identity": "/identity", "presence": "/presence", "messages": "/messages", "consent": "/consent",
		"federation": "/federation", "health": "/health",
	}
	below := func(root string) wire.Members {
		under := wire.Members{}
		for name, path := range paths {
			text, _ := path.(string)
			under[name] = root + text
		}
		return under
	}
	version := func(status, root string, signed bool) wire.Members {
		return wire.Members{"status": status, "base_url": l.deps.PublicURL, "endpoints": below(root), "signing_required": signed}
	}
	return answer{status: http.StatusOK, body: wire.Members{
		"protocol": "AIRC", "protocol_version": wire.ProtocolVersion, "registry_name": l.cfg.Name, "registry_id": l.domain,
		"registry_url": l.deps.PublicURL, "public_key": wire.KeyText(l.deps.Keyring.Registry().Public), "endpoints": paths,
		"versions": wire.Members{
			"0.1": version("live", deployedRoot, false), "0.1.1": version("live", "", true),
		},
		"federation": wire.Members{
			"enabled": enabled, "public": l.cfg.Federation == peers.FederationOpen, "allowlist": allowed, "blocklist": blocked,
			"relay_endpoint": "/federation/relay", "discovery_endpoint": "/federation/identity",
		},
		"federation_enabled": enabled, "relay_endpoint": "/federation/relay",
		"signing":      wire.Members{"algorithm": "Ed25519", "required": false, "canonicalization": "RFC8785"},
		"auth":         wire.Members{"type": "bearer", "required": true},
		"rate_limits":  wire.Members{"messages_per_minute": peers.DefaultPerMinute, "presence_interval_seconds": 30},
		"capabilities": []string{"text", "handoff", "task:request", "task:result", "handoff:session", "at.freeq:handoff"},
	}}, nil
}

// getRegistry includes older keys that are still valid after a rotation.
//
// spec: airc-v0.1.1 §9.3
func (l *Link) getRegistry(*call) (answer, error) {
	body := struct {
		Domain    string     `json:"domain"`
		Name      string     `json:"name"`
		PublicKey string     `json:"publicKey"`
		KeyID     string     `json:"kid"`
		Keys      []wire.Key `json:"keys"`
	}{Domain: l.domain, Name: l.cfg.Name}
	for _, key := range l.deps.Keyring.Good(identity.RegistryKey, time.Now()) {
		body.Keys = append(body.Keys, registryKey(key))
	}
	body.PublicKey, body.KeyID = body.Keys[0].Public, body.Keys[0].ID
	return answer{status: http.StatusOK, body: body}, nil
}

// registryKey shows a retired key as in transition until its overlap ends.
//
// spec: airc-v0.1.1 §5.3
func registryKey(key federation.OwnKey) wire.Key {
	shown := wire.Key{
		ID: signing.RegistryKeyID(key.Public), Public: base64.RawURLEncoding.EncodeToString(key.Public), Status: "active",
	}
	if !key.Since.IsZero() {
		shown.CreatedAt = new(key.Since.Unix())
	}
	if !key.Retired.IsZero() {
		shown.Status, shown.ExpiresAt = "pending", new(key.Until.Unix())
	}
	return shown
}

// spec: did:web "Read"
func (l *Link) getAgentDocument(c *call) (answer, error) {
	handle := c.PathValue("handle")
	agent, err := l.deps.Record.Agent(c.Context(), handle)
	switch {
	case errors.Is(err, federation.ErrNotFound), err == nil && c.PathValue("registry") != l.domain:
		return answer{}, wire.Refuse(wire.CodeIdentityNotFound, "no agent here has this handle")
	case err != nil:
		return answer{}, fmt.Errorf("look up agent: %w", err)
	}
	did := l.deps.Home.DID() + federation.DID(":airc:"+l.domain+":"+agent.Handle)
	others := slices.Compact([]federation.DID{agent.DID, agent.OwnDID})
	document := identity.AgentDocument(did, agent.KeptKey, l.deps.PublicURL, others...)
	return answer{status: http.StatusOK, body: json.RawMessage(document)}, nil
}
