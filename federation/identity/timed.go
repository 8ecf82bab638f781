package identity

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
)

// Timed measures how long a directory takes to resolve DIDs. It implements [Refresher]. Make one
// with [NewTimed].
type Timed struct {
	Refresher

	seconds *prometheus.HistogramVec // method outcome
}

// NewResolveSeconds returns the metric of [Timed], registered.
func NewResolveSeconds(reg prometheus.Registerer) *prometheus.HistogramVec {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "baton", Name: "did_resolve_seconds", Help: "Time to resolve a DID, from memory or from afar.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 8, 8), // 10 µs, a did:key, to 21 s, beyond every timeout
	}, []string{"method", "outcome"})
	reg.MustRegister(seconds)
	return seconds
}

// NewSkippedKeys returns the registered metric of unusable keys in DID documents, by DID method.
func NewSkippedKeys(reg prometheus.Registerer) *prometheus.CounterVec {
	skipped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "baton", Name: "did_keys_skipped_total", Help: "Unusable keys in fetched DID documents.",
	}, []string{"method"})
	reg.MustRegister(skipped)
	return skipped
}

// NewTimed returns a directory that counts in the metric of [NewResolveSeconds].
func NewTimed(directory Refresher, seconds *prometheus.HistogramVec) Timed {
	return Timed{Refresher: directory, seconds: seconds}
}

// Resolve implements [federation.Directory].
func (t Timed) Resolve(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := t.Refresher.Resolve(ctx, did, now)
	t.count(did, begun, err)
	return document, err
}

// Refresh implements [Refresher].
func (t Timed) Refresh(ctx context.Context, did federation.DID, now time.Time) (federation.Document, error) {
	begun := time.Now()
	document, err := t.Refresher.Refresh(ctx, did, now)
	t.count(did, begun, err)
	return document, err
}

func (t Timed) count(did federation.DID, begun time.Time, err error) {
	if errors.Is(err, ErrNotAtHand) {
		return // the lookup that follows counts
	}
	method := did.Method()
	if !slices.Contains([]string{"key", "web", "plc"}, method) {
		method = "other" // remote parties can invent methods
	}
	t.seconds.WithLabelValues(method, outcome(err).String()).Observe(time.Since(begun).Seconds())
}

// outcome returns the verdict of an attempt to resolve a DID.
func outcome(err error) federation.Verdict {
	if err == nil {
		return federation.Valid
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		return federation.Unverifiable
	}
	return federation.Invalid
}
