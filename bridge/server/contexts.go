package server

import (
	"context"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// contexts returns what keeps the contexts and the evidence of steps. It asks admit, if that
// is not nil, before it keeps a context that a participant uploads.
func (p *Server) contexts(admit func(ctx context.Context, owner federation.DID, now time.Time) error) bridge.Contexts {
	return bridge.Contexts{
		Blobs: p.Record, Originals: p.Record, Admit: admit, PublicURL: strings.TrimSuffix(p.publicURL, "/"), Log: p.log,
		Limits: func() (one, ofDID int64) { return p.linkLimits.Current().ContextBytes, p.contextsOfDID.Load() },
	}
}

// orMost returns a limit of the configuration as the size that one context may have.
func orMost(limit int64) int64 {
	if limit == 0 || limit > federation.MaxBlobBytes {
		return federation.MaxBlobBytes
	}
	return limit
}
