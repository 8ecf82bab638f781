package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
	"baton/federation/identity"
)

// timedDirectory counts how long it takes to resolve DIDs. It implements
// [identity.Refresher].
type timedDirectory struct {
	identity.Refresher

	seconds *prometheus.HistogramVec // method outcome
}

func newResolveSeconds(reg prometheus.Registerer) *prometheus.HistogramVec {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "baton", Name: "did_resolve_seconds", Help: "Time to resolve a DID, from memory or from afar.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 8, 8), // 10 µs, a did:key, to 21 s, beyond every timeout
	}, []string{"method", "outcome"})
	reg.MustRegister(seconds)
	return seconds
}

// Resolve implements [federation.Directory].
func (d timedDirectory) Resolve(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := d.Refresher.Resolve(ctx, did, now)
	d.count(did, begun, err)
	return document, err
}

// Refresh implements [identity.Refresher].
func (d timedDirectory) Refresh(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := d.Refresher.Refresh(ctx, did, now)
	d.count(did, begun, err)
	return document, err
}

func (d timedDirectory) count(did federation.DID, begun time.Time, err error) {
	if errors.Is(err, identity.ErrNotAtHand) {
		return // the lookup that follows is counted
	}
	method := did.Method()
	if !slices.Contains([]string{"key", "web", "plc"}, method) {
		method = "other" // anybody may invent one
	}
	d.seconds.WithLabelValues(method, resolved(err).String()).Observe(time.Since(begun).Seconds())
}

// resolved says what an attempt to resolve a DID came to.
func resolved(err error) federation.Verdict {
	if err == nil {
		return federation.Valid
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		return federation.Unverifiable
	}
	return federation.Invalid
}
