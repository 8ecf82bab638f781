package credential

import (
	"maps"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"baton/bridge"
)

// maxAddresses bounds the addresses that are counted at once, about 200 bytes
// each. More than that many active ones in a period are a flood of fresh addresses,
// against which a rate for each does nothing.
const maxAddresses = 1 << 14

// Addresses counts what is asked from each address by those who have shown nothing yet.
// Make one with [NewAddresses]; it may be used concurrently.
type Addresses struct {
	limit  func() int
	period time.Duration
	// buckets is owned by whoever took it, who puts it back.
	buckets chan map[netip.Prefix]*rate.Limiter
}

// NewAddresses returns a count of which each address has a limit in each period. The
// limit may change; 0 is none.
func NewAddresses(limit func() int, period time.Duration) Addresses {
	a := Addresses{limit: limit, period: period, buckets: make(chan map[netip.Prefix]*rate.Limiter, 1)}
	a.buckets <- map[netip.Prefix]*rate.Limiter{}
	return a
}

// AddressOf returns where a request comes from, as [bridge.NetworkOf] its RemoteAddr.
func AddressOf(r *http.Request) netip.Prefix { return bridge.NetworkOf(r.RemoteAddr) }

// Take counts one request and reports whether it may be made.
func (a Addresses) Take(from netip.Prefix, now time.Time) bool {
	limit := a.limit()
	if limit <= 0 {
		return true
	}
	buckets := <-a.buckets
	defer func() { a.buckets <- buckets }()
	bucket := buckets[from]
	if bucket == nil || bucket.Burst() != limit { // new, or the limit has changed
		makeRoom(buckets, now)
		bucket = rate.NewLimiter(rate.Limit(limit)/rate.Limit(a.period.Seconds()), limit)
		buckets[from] = bucket
	}
	return bucket.AllowN(now, 1)
}

// makeRoom drops the buckets that say no more than a new one would, and where that
// is not enough all of them.
func makeRoom(buckets map[netip.Prefix]*rate.Limiter, now time.Time) {
	if len(buckets) < maxAddresses {
		return
	}
	maps.DeleteFunc(buckets, func(_ netip.Prefix, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(b.Burst()) })
	if len(buckets) >= maxAddresses {
		clear(buckets)
	}
}

// Left returns how many requests an address has left.
func (a Addresses) Left(from netip.Prefix, now time.Time) bridge.Allowance {
	limit := max(0, a.limit())
	full := bridge.Allowance{Limit: limit, Left: limit, Full: now}
	buckets := <-a.buckets
	defer func() { a.buckets <- buckets }()
	bucket := buckets[from]
	if bucket == nil || limit == 0 || bucket.Burst() != limit {
		return full
	}
	tokens := max(0, bucket.TokensAt(now))
	missing := (float64(limit) - tokens) / float64(limit)
	return bridge.Allowance{Limit: limit, Left: int(tokens), Full: now.Add(time.Duration(missing * float64(a.period)))}
}
