package airc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/bridge/airc/peers"
	"baton/bridge/airc/wire"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/signing"
)

// mountFederation registers the paths of other registries.
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

// getWellKnown answers GET /.well-known/airc: what other registries and clients look
// for, each in its own place.
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

// getRegistry answers GET /.well-known/airc/registry.json: the key that signs
// what this registry itself writes and, after a rotation, those whose signatures are
// good beside it.
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

// registryKey returns a key as agents and other registries read it. One that was
// rotated away is in transition until its overlap ends.
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

// getAgentDocument answers GET /airc/{registry}/{handle}/did.json: the document of the
// did:web that an agent has beside the did:key which the gateway keeps for it.
//
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
	others := slices.Compact([]federation.DID{agent.DID, agent.OwnDID}) // one without a proved key
	document := identity.AgentDocument(did, agent.KeptKey, l.deps.PublicURL, others...)
	return answer{status: http.StatusOK, body: json.RawMessage(document)}, nil
}
