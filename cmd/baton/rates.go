package main

import (
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/home"
)

// didRates lets a network count in the same buckets as the home.
type didRates struct {
	rates   *home.Rates
	gateway *gateway
}

func (r didRates) perMinute() int { return r.gateway.home.Load().Limits.EventsPerMinute }

// Take implements [airc.Rates].
func (r didRates) Take(did federation.DID, now time.Time) time.Duration {
	return r.rates.Take(did, r.perMinute(), now)
}

// Charge implements [agentapi.Rates]. It counts a step although it may be one too many.
func (r didRates) Charge(did federation.DID, now time.Time) { r.Take(did, now) }

// Left implements [airc.Rates].
func (r didRates) Left(did federation.DID, now time.Time) bridge.Allowance {
	left, full := r.rates.Left(did, r.perMinute(), now)
	return bridge.Allowance{Limit: r.perMinute(), Left: left, Full: full}
}
