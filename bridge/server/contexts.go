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
func (s *Server) contexts(admit func(ctx context.Context, owner federation.DID, now time.Time) error) bridge.Contexts {
	return bridge.Contexts{
		Blobs: s.Record, Originals: s.Record, Admit: admit, PublicURL: strings.TrimSuffix(s.publicURL, "/"), Log: s.log,
		Limits: func() (one, ofDID int64) { return s.linkLimits.Current().ContextBytes, s.contextsOfDID.Load() },
	}
}

// orMost returns a limit of the configuration as the size that one context may have.
func orMost(limit int64) int64 {
	if limit == 0 || limit > federation.MaxBlobBytes {
		return federation.MaxBlobBytes
	}
	return limit
}
