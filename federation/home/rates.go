package home

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/federation"
)

// More active DIDs in a minute are a flood of new DIDs, which a rate per DID cannot stop. Full
// buckets are dropped first, then the fullest, so that a flood does not reset the rate of a DID.
const maxRated = 1 << 16

const keptRated = maxRated * 3 / 4

// Rates counts the steps of each DID in a bucket that starts full with one minute's worth. It is
// safe for concurrent use. Create it with [NewRates].
type Rates struct {
	mu      sync.Mutex
	buckets map[federation.DID]*rate.Limiter
}

// NewRates returns counters at zero.
func NewRates() *Rates { return &Rates{buckets: map[federation.DID]*rate.Limiter{}} }

// Take counts one step and returns the wait until it is allowed, or zero. A limit of zero means
// no limit.
func (r *Rates) Take(did federation.DID, perMinute int, now time.Time) time.Duration {
	if perMinute <= 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket, ok := r.buckets[did]
	if !ok {
		r.makeRoom(now)
		bucket = rate.NewLimiter(0, 0)
		r.buckets[did] = bucket
	}
	if every := rate.Limit(perMinute) / 60; bucket.Limit() != every || bucket.Burst() != perMinute {
		bucket = rate.NewLimiter(every, perMinute)
		r.buckets[did] = bucket
	}
	reservation := bucket.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// Left returns the remaining steps of a DID, and the time at which its bucket is full again.
func (r *Rates) Left(did federation.DID, perMinute int, now time.Time) (left int, full time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket, ok := r.buckets[did]
	if !ok || perMinute <= 0 {
		return perMinute, now
	}
	tokens := max(0, min(bucket.TokensAt(now), float64(perMinute)))
	missing := float64(perMinute) - tokens
	return int(tokens), now.Add(time.Duration(missing * 60 / float64(perMinute) * float64(time.Second)))
}

func (r *Rates) makeRoom(now time.Time) {
	if len(r.buckets) < maxRated {
		return
	}
	for did, bucket := range r.buckets {
		if bucket.TokensAt(now) >= float64(bucket.Burst()) {
			delete(r.buckets, did)
		}
	}
	if len(r.buckets) < maxRated {
		return
	}
	emptiest := slices.SortedFunc(maps.Keys(r.buckets), func(a, b federation.DID) int {
		return cmp.Compare(r.buckets[a].TokensAt(now), r.buckets[b].TokensAt(now))
	})
	for _, did := range emptiest[keptRated:] {
		delete(r.buckets, did)
	}
}

// Returns the DID of the step if it is new to the record. Parties of the handoff are admitted, and
// signers of deferred steps, which were admitted on arrival. Steps of the home, and steps admitted
// by another home, are not counted: their signers would not be notified of this home's limits.
//
// A step signed with the gateway's key for a DID counts for that DID. Any other signer could name
// any DID in For, so its steps count for the signer.
func (h *Home) admit(ctx context.Context, sub Submission, now time.Time) (newcomer federation.DID, err error) {
	ev := sub.Event
	if ev.From == h.ID.DID() || ev.Arrival.Home != "" || sub.Ruling != nil {
		return "", nil
	}
	did := ev.From
	if ev.For != "" {
		same, err := h.Same(ctx, ev.From, ev.For)
		if err != nil {
			return "", err
		}
		if same {
			did = ev.For
		}
	}
	if wait := h.Rates.Take(did, h.Limits.EventsPerMinute, now); wait > 0 {
		refused := federation.Refuse(ev, federation.RateLimited, "")
		refused.RetryAfter = wait
		return "", refused
	}
	isNew, stranger := h.Admit(ctx, did, ev.Arrival.Address, now)
	if stranger != nil {
		s, err := h.Record.Snapshot(ctx, federation.SnapshotQuery{Step: ev})
		if err != nil {
			return "", fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
		}
		if ev.Arrival.ActingFor, err = h.party(ctx, s.View, ev); err != nil { // needed to find the actor
			return "", err
		}
		if slices.Contains(s.View.Others(""), ev.Actor()) {
			stranger = nil
		}
	}
	switch {
	case stranger != nil && !sub.Resumed:
		return "", stranger
	case stranger == nil && isNew:
		return did, nil
	}
	return "", nil
}
