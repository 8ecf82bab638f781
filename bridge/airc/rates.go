package airc

import (
	"maps"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"baton/bridge"
	"baton/federation"
)

// maxAddresses bounds the addresses that are counted at once, about 200 bytes
// each. More than that many active ones in an hour are a flood of fresh addresses,
// against which a rate for each does nothing.
const maxAddresses = 1 << 14

// subnetBits is how much of an IPv6 address one customer is given at least.
const subnetBits = 64

// Rates counts what each DID sends, steps and other messages alike.
type Rates interface {
	// Take counts one message and returns how long to wait where that is one too
	// many; it is not counted then.
	Take(did federation.DID, now time.Time) time.Duration
	// Left returns what a DID has left.
	Left(did federation.DID, now time.Time) bridge.Allowance
}

// addresses counts the handles that were registered from each address.
type addresses struct {
	perHour func() int
	// buckets is owned by whoever took it, who puts it back.
	buckets chan map[netip.Prefix]*rate.Limiter
}

func newAddresses(perHour func() int) addresses {
	a := addresses{perHour: perHour, buckets: make(chan map[netip.Prefix]*rate.Limiter, 1)}
	a.buckets <- map[netip.Prefix]*rate.Limiter{}
	return a
}

// address returns where a request comes from: one address, or one subnet of IPv6.
// All of unknown origin are one.
func address(r *http.Request) netip.Prefix {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := from.Addr().Unmap(), subnetBits
	if addr.Is4() {
		bits = addr.BitLen()
	}
	prefix, _ := addr.WithZone("").Prefix(bits) // both lengths fit
	return prefix
}

// take counts one registration and reports whether it may be made.
func (a addresses) take(from netip.Prefix, now time.Time) bool {
	limit := a.perHour()
	if limit <= 0 {
		return true
	}
	buckets := <-a.buckets
	defer func() { a.buckets <- buckets }()
	bucket := buckets[from]
	if bucket == nil || bucket.Burst() != limit { // new, or the limit has changed
		makeRoom(buckets, now)
		bucket = rate.NewLimiter(rate.Limit(limit)/rate.Limit(time.Hour.Seconds()), limit)
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

// left returns how many registrations an address has left.
func (a addresses) left(from netip.Prefix, now time.Time) bridge.Allowance {
	full := bridge.Allowance{Limit: max(0, a.perHour()), Left: max(0, a.perHour()), Full: now}
	buckets := <-a.buckets
	defer func() { a.buckets <- buckets }()
	bucket := buckets[from]
	if bucket == nil || full.Limit == 0 || bucket.Burst() != full.Limit {
		return full
	}
	tokens := max(0, bucket.TokensAt(now))
	missing := (float64(full.Limit) - tokens) / float64(full.Limit)
	return bridge.Allowance{Limit: full.Limit, Left: int(tokens), Full: now.Add(time.Duration(missing * float64(time.Hour)))}
}

// check refuses what would be one too many of a rate whose bucket holds one
// period's worth.
func check(a bridge.Allowance, period time.Duration) error {
	if a.Limit == 0 || a.Left > 0 {
		return nil
	}
	return tooMany(period / time.Duration(a.Limit))
}

func tooMany(wait time.Duration) error {
	return &problem{code: codeRateLimited, message: "too many requests; wait a little", retryAfter: wait}
}

// charge counts a message that is no step; the home counts steps.
func (l *Link) charge(d *delivery) error {
	d.charged = true
	if wait := l.deps.Rates.Take(d.sender.DID, d.received); wait > 0 {
		return tooMany(wait)
	}
	return nil
}

// allowance returns the bucket that a request counts in: that of its agent, else
// that of its address.
func (l *Link) allowance(c *call, now time.Time) bridge.Allowance {
	if c.denied == nil {
		return l.deps.Rates.Left(c.agent.DID, now)
	}
	return l.registrations.left(address(c.Request), now)
}
