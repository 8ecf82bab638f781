package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"baton/federation"
	"baton/federation/identity"
)

// mountIdentity serves the gateway's own DID document, so that anybody can check
// what it expired and confirmed.
//
// spec: did:web "Read"
func mountIdentity(mux *http.ServeMux, key federation.SigningKey) {
	document := identity.DIDDocument(key)
	mux.HandleFunc("GET /.well-known/did.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/did+json")
		_, _ = w.Write(document) // the client is gone
	})
}

// skills implements home.Capabilities with what agents registered.
type skills struct{ registry federation.Registry }

// Declared returns the skills of an agent, none for anybody else.
func (s skills) Declared(ctx context.Context, did federation.DID) ([]string, error) {
	agent, err := s.registry.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read agent: %w", err)
	}
	var declared struct {
		Skills []string `json:"skills"`
	}
	if len(agent.Capabilities) > 0 {
		if err := json.Unmarshal(agent.Capabilities, &declared); err != nil {
			return nil, fmt.Errorf("read capabilities of %s: %w", agent.Handle, err)
		}
	}
	return declared.Skills, nil
}
