package server

import (
	"time"

	"baton/bridge"
	"baton/federation"
)

// Rates gives networks the rate limits that the home applies to DIDs.
type Rates struct{ gateway *Gateway }

// Rates returns the rates of DIDs.
func (g *Gateway) Rates() Rates { return Rates{g} }

func (r Rates) perMinute() int { return r.gateway.home.Load().Limits.EventsPerMinute }

// Take counts one request of a DID, and returns how long the DID has to wait before it may
// make one; 0 where it may now.
func (r Rates) Take(did federation.DID, now time.Time) time.Duration {
	return r.gateway.deps.DIDs.Take(did, r.perMinute(), now)
}

// Charge counts one request of a DID that was made already.
func (r Rates) Charge(did federation.DID, now time.Time) { r.Take(did, now) }

// Left returns what a DID has left.
func (r Rates) Left(did federation.DID, now time.Time) bridge.Allowance {
	left, full := r.gateway.deps.DIDs.Left(did, r.perMinute(), now)
	return bridge.Allowance{Limit: r.perMinute(), Left: left, Full: full}
}
