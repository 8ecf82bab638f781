package main

import (
	"context"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// contexts returns what keeps here what steps refer to.
func (p *program) contexts() bridge.Contexts {
	return bridge.Contexts{
		Blobs: p.record, PublicURL: strings.TrimSuffix(p.publicURL, "/"), Log: p.log,
		Limits: func() (one, ofDID int64) { return p.linkLimits.Load().ContextBytes, p.contextsOfDID.Load() },
	}
}

// orMost returns a limit of the configuration as the size that one context may have.
func orMost(limit int64) int64 {
	if limit == 0 || limit > federation.MaxBlobBytes {
		return federation.MaxBlobBytes
	}
	return limit
}

// storeContext keeps a context that an agent uploads, unless the agent is a new DID that has
// to come later.
func (p *program) storeContext(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error) {
	if err := p.gateway.Admit(ctx, owner, time.Now()); err != nil {
		return federation.Blob{}, err
	}
	return p.contexts().Store(ctx, owner, content)
}
