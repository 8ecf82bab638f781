package credential

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge"
)

// maxAddresses bounds the counted addresses, about 200 bytes each. More active addresses per period
// are a flood of fresh addresses, against which limits per address are useless. Such a flood must
// not reset the limits of other addresses.
const maxAddresses = 1 << 14

// keptAddresses is the number of buckets kept if there are too many. Dropping many at once
// amortizes the sort.
const keptAddresses = maxAddresses * 3 / 4

// Addresses rate-limits unauthenticated callers by address. It is safe for concurrent use, and
// copies share their counts. The zero value has no limit.
type Addresses struct {
	limit  func() int // nil for none
	period time.Duration
	// The goroutine that receives the map owns it until it sends it back.
	buckets chan map[netip.Prefix]*rate.Limiter
}

// NewAddresses returns a count per address and period. The limit may change; 0 means no limit.
func NewAddresses(limit func() int, period time.Duration) Addresses {
	a := Addresses{limit: limit, period: period, buckets: make(chan map[netip.Prefix]*rate.Limiter, 1)}
	a.buckets <- map[netip.Prefix]*rate.Limiter{}
	return a
}

func (a Addresses) most() int {
	if a.limit == nil {
		return 0
	}
	return max(0, a.limit())
}

// AddressOf returns the subnet of the client, see [bridge.SubnetOf].
func AddressOf(r *http.Request) netip.Prefix { return bridge.SubnetOf(r.RemoteAddr) }

// Take counts one request and reports whether it is allowed. The zero Prefix is not counted, because it
// represents all clients behind a proxy.
func (a Addresses) Take(from netip.Prefix, now time.Time) bool { return a.Wait(from, now) == 0 }

// Wait is Take, but returns the wait before the request is allowed. Zero means that it was counted and
// is allowed now.
func (a Addresses) Wait(from netip.Prefix, now time.Time) time.Duration {
	wait, _ := a.Reserve(from, now)
	return wait
}

// Reserve is Wait, but also returns a function that undoes the count.
func (a Addresses) Reserve(from netip.Prefix, now time.Time) (wait time.Duration, undo func()) {
	limit := a.most()
	if limit == 0 || !from.IsValid() {
		return 0, func() {}
	}
	buckets := <-a.buckets
	defer func() { a.buckets <- buckets }()
	bucket := buckets[from]
	if bucket == nil || bucket.Burst() != limit { // new, or the limit has changed
		makeRoom(buckets, now)
		bucket = rate.NewLimiter(rate.Limit(limit)/rate.Limit(a.period.Seconds()), limit)
		buckets[from] = bucket
	}
	reservation := bucket.ReserveN(now, 1)
	undo = func() { reservation.CancelAt(now) } // no effect at a later time
	if wait = reservation.DelayFrom(now); wait > 0 {
		undo()
	}
	return wait, undo
}

// makeRoom drops full buckets, which equal new ones, and if necessary the fullest of the others.
func makeRoom(buckets map[netip.Prefix]*rate.Limiter, now time.Time) {
	if len(buckets) < maxAddresses {
		return
	}
	maps.DeleteFunc(buckets, func(_ netip.Prefix, b *rate.Limiter) bool { return b.TokensAt(now) >= float64(b.Burst()) })
	if len(buckets) < maxAddresses {
		return
	}
	emptiest := slices.SortedFunc(maps.Keys(buckets), func(a, b netip.Prefix) int {
		return cmp.Compare(buckets[a].TokensAt(now), buckets[b].TokensAt(now))
	})
	for _, from := range emptiest[keptAddresses:] {
		delete(buckets, from)
	}
}

// Left returns the remaining requests of an address.
func (a Addresses) Left(from netip.Prefix, now time.Time) bridge.Allowance {
	limit := a.most()
	full := bridge.Allowance{Limit: limit, Left: limit, Full: now}
	if limit == 0 {
		return full
	}
	buckets := <-a.buckets
	defer func() { a.buckets <- buckets }()
	bucket := buckets[from]
	if bucket == nil || bucket.Burst() != limit {
		return full
	}
	tokens := max(0, bucket.TokensAt(now))
	missing := (float64(limit) - tokens) / float64(limit)
	return bridge.Allowance{Limit: limit, Left: int(tokens), Full: now.Add(time.Duration(missing * float64(a.period)))}
}
