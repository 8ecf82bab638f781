package server

import (
	"context"
	"errors"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// Rates gives networks access to the rate limits of DIDs.
type Rates struct{ gateway *Gateway }

// Rates returns the rates of DIDs.
func (g *Gateway) Rates() Rates { return Rates{g} }

func (r Rates) perMinute() int { return r.gateway.home.Load().Limits.EventsPerMinute }

// Take counts one request of a DID, and returns the wait before its next request.
func (r Rates) Take(did federation.DID, now time.Time) time.Duration {
	return r.gateway.deps.DIDs.Take(did, r.perMinute(), now)
}

// Charge counts a past request of a DID.
func (r Rates) Charge(did federation.DID, now time.Time) { r.Take(did, now) }

// Left returns the remaining allowance of a DID.
func (r Rates) Left(did federation.DID, now time.Time) bridge.Allowance {
	left, full := r.gateway.deps.DIDs.Left(did, r.perMinute(), now)
	return bridge.Allowance{Limit: r.perMinute(), Left: left, Full: full}
}

const maxSeeded = 1 << 16

// Admit asks the home to admit a DID without a step. The error wraps a
// [*federation.NewDIDLimitError] if a new DID must retry later.
func (g *Gateway) Admit(ctx context.Context, did federation.DID, now time.Time) error {
	_, err := g.home.Load().Admit(ctx, did, addressFrom(ctx), now)
	g.countStranger(err)
	return err
}

// Meet records a DID as known.
func (g *Gateway) Meet(ctx context.Context, did federation.DID, now time.Time) error {
	return g.home.Load().Meet(ctx, did, addressFrom(ctx), now)
}

func addressFrom(ctx context.Context) string {
	if from := bridge.SubnetFrom(ctx); from.IsValid() {
		return from.String()
	}
	return ""
}

// countStranger counts and reports an error that makes a stranger retry later.
func (g *Gateway) countStranger(err error) bool {
	stranger, ok := errors.AsType[*federation.NewDIDLimitError](err)
	if ok {
		g.deps.Metrics.Strangers.WithLabelValues(string(stranger.Reason)).Inc()
	}
	return ok
}

// SeedStrangers restores the count of recent new DIDs after a start. Counts by address start at
// zero, because the record does not contain addresses.
func (g *Gateway) SeedStrangers(ctx context.Context, now time.Time) error {
	met, err := g.deps.Record.MetSince(ctx, now.Add(-federation.AcquaintanceAge), maxSeeded)
	for _, each := range met {
		g.deps.Strangers.Count(each.DID, "", each.Met, 0)
	}
	return err
}
