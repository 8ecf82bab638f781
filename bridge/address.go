package bridge

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"baton/federation"
)

// Subnet returns what limits count as one client: one IPv4 address, or one /64 of IPv6.
// It returns the zero Prefix for the zero Addr.
func Subnet(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := federation.SubnetBits
	if addr.Is4() {
		bits = addr.BitLen()
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// SubnetOf is [Subnet] of an address as net/http and net.Conn write it, "host:port" or
// a host alone. Text that holds no IP address is the zero Prefix. Limits by address do not
// apply to it: it stands for all clients of a trusted proxy that names no addresses.
func SubnetOf(remote string) netip.Prefix {
	if from, err := netip.ParseAddrPort(remote); err == nil {
		return Subnet(from.Addr())
	}
	addr, err := netip.ParseAddr(remote)
	if err != nil {
		return netip.Prefix{}
	}
	return Subnet(addr)
}

type subnetKey struct{}

// WithSubnet returns a context for what the client at an address asks. Steps submitted
// with it carry the address in their Arrival.
func WithSubnet(ctx context.Context, from netip.Prefix) context.Context {
	return context.WithValue(ctx, subnetKey{}, from)
}

// SubnetFrom returns the address given to [WithSubnet], or the zero Prefix. Server
// links and other homes give none: their people's addresses are unknown here.
func SubnetFrom(ctx context.Context) netip.Prefix {
	from, _ := ctx.Value(subnetKey{}).(netip.Prefix)
	return from
}

// Allowance is how much of a rate a participant or an address has left.
type Allowance struct {
	Limit int // of a full bucket; 0 where there is no limit
	Left  int
	Full  time.Time // when the bucket is full again
}

// WriteHeader writes the allowance into the header of an HTTP answer.
func (a Allowance) WriteHeader(h http.Header) {
	if a.Limit == 0 {
		return
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(a.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(a.Left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(a.Full.Add(time.Second-1).Unix(), 10))
}

// How a [Pace] learns. A rate is of messages a second.
const (
	learnable  = 10          // the first rate for a peer that named none, after it refused a message as one too many
	unseeded   = 0.5         // factor of the rate after such a refusal of a peer that named none
	seeded     = 0.8         // factor of the rate after such a refusal of a peer that named one
	faster     = 1.05        // factor of the rate, up to the seed, after fasterPer messages
	fasterPer  = 8           // messages in a row that the peer took
	slowest    = 1.0 / 60    // the lowest rate
	unlimited  = 1 << 20     // above any rate at which the gateway writes
	longestEnd = time.Minute // the longest pause of all messages that a peer can ask for
)

// Pace limits the messages to one destination: a bucket with the rate that the destination
// names. The rate falls when the destination refuses a message as one too many, and then rises
// again up to the named rate. A Pace may be used concurrently.
type Pace struct {
	mu     sync.Mutex
	bucket *rate.Limiter
	seed   rate.Limit
	burst  int       // of the seed
	took   int       // messages since the rate changed last
	until  time.Time // no message is sent before
}

// NewPace returns the pace of a destination that takes a number of messages a minute, in one
// burst at most; 0 is any number.
func NewPace(perMinute int) *Pace {
	p := &Pace{seed: unlimited, burst: unlimited}
	if perMinute > 0 {
		p.seed, p.burst = rate.Limit(perMinute)/60, perMinute
	}
	p.bucket = rate.NewLimiter(p.seed, p.burst)
	return p
}

// Take counts one message and returns 0, or returns how long to wait before the next call.
func (p *Pace) Take(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.until.Sub(now); wait > 0 {
		return wait
	}
	slot := p.bucket.ReserveN(now, 1)
	wait := slot.DelayFrom(now)
	if wait > 0 {
		slot.CancelAt(now)
	}
	return wait
}

// Limited reports whether the destination has a rate limit.
func (p *Pace) Limited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bucket.Limit() < unlimited
}

// Wait returns the time until [Pace.Take] succeeds, 0 for no wait.
func (p *Pace) Wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.until.Sub(now); wait > 0 {
		return wait
	}
	slot := p.bucket.ReserveN(now, 1)
	defer slot.CancelAt(now)
	return slot.DelayFrom(now)
}

// Took notes that the destination took a message. The rate may rise.
func (p *Pace) Took(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bucket.Limit() >= p.seed {
		return
	}
	if p.took++; p.took < fasterPer {
		return
	}
	p.took = 0
	p.bucket.SetLimitAt(now, min(p.seed, p.bucket.Limit()*faster))
	if p.bucket.Limit() == p.seed {
		p.bucket.SetBurstAt(now, p.burst)
	}
}

// TooMuch notes that the destination refused a message as one too many, and after how long it
// takes the next one. The rate falls.
func (p *Pace) TooMuch(now time.Time, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := now.Add(min(again, longestEnd))
	if !until.After(p.until) {
		return // the message was sent before an earlier refusal
	}
	p.until, p.took = until, 0
	limit := p.bucket.Limit() * seeded
	if p.seed == unlimited {
		limit = min(p.bucket.Limit(), learnable) * unseeded
	}
	p.bucket.SetLimitAt(now, max(slowest, limit))
	p.bucket.SetBurstAt(now, 1) // the burst was too large
}

// wait counts one message, and blocks until it may be sent or ctx ends.
func (p *Pace) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := p.Take(time.Now())
		if wait == 0 {
			return nil
		}
		Sleep(ctx, wait)
	}
	return ctx.Err()
}

// Turns lets the senders at one destination take turns: the next one is the sender with the oldest
// last turn. It is not safe for concurrent use.
type Turns struct {
	last  map[string]int // number of the last turn, for each sender in the last call of Next
	count int
}

// Next returns the index of the next item. The argument has the sender of each waiting item, in
// order, and must not be empty.
func (t *Turns) Next(senders []string) int {
	last := make(map[string]int, len(t.last)) // drops senders without waiting items
	next := 0
	for i, sender := range senders {
		if turn, known := t.last[sender]; known {
			last[sender] = turn
		}
		if t.last[sender] < t.last[senders[next]] {
			next = i
		}
	}
	t.last = last
	return next
}

// Took records a turn of a sender.
func (t *Turns) Took(sender string) {
	t.count++
	t.last[sender] = t.count
}
