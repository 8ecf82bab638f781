package server

import (
	"context"
	"crypto/ed25519"
	"time"

	"baton/bridge/a2a"
	"baton/federation"
)

// a2aDeps returns what the face for A2A clients needs beside the ports of each link.
func (s *Server) a2aDeps(record boundRecord) a2a.Deps {
	return a2a.Deps{
		Deps: s.participantDeps(record), Agents: residents{record, s}, Record: record, Webhooks: record, Hooks: s.agentHooks(),
		PublicKeys: s.serverKeysAt, Version: s.options.Version,
	}
}

// residents implements [a2a.Agents].
type residents struct {
	boundRecord

	server *Server
}

// Here implements [a2a.Agents].
func (r residents) Here(ctx context.Context, did federation.DID) (bool, error) {
	return r.server.homes.locator.Here(ctx, did)
}

// serverKeysAt implements [a2a.PublicKeys].
func (s *Server) serverKeysAt(now time.Time) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, key := range s.keyring.ServerKeys(s.homeID(), now) {
		keys = append(keys, key.Public)
	}
	return keys
}
