package bridge

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How a [Pace] learns. A rate is of messages a second.
const (
	learnable  = 10          // what is tried first of a peer that said nothing of itself and then takes it for too much
	unseeded   = 0.5         // times the rate, when such a peer says so
	seeded     = 0.8         // times the rate, when one says so that had named it
	faster     = 1.05        // times the rate, up to the seed, after so many messages
	fasterPer  = 8           // that were taken
	slowest    = 1.0 / 60    // nobody wants less
	unlimited  = 1 << 20     // more than anything here writes
	longestEnd = time.Minute // for so long, at most, a peer that says when to come again means all of us
)

// Pace is how fast one destination takes messages: a bucket that is seeded with what the
// destination says of itself, gets slower when it says that it is too much, and then
// faster again up to the seed. It may be used concurrently.
type Pace struct {
	mu     sync.Mutex
	bucket *rate.Limiter
	seed   rate.Limit
	burst  int       // of the seed
	took   int       // since the rate last changed
	until  time.Time // nothing goes before
}

// NewPace returns the pace of a destination that takes so many messages a minute, all of
// them at once if need be; 0 is any number.
func NewPace(perMinute int) *Pace {
	p := &Pace{seed: unlimited, burst: unlimited}
	if perMinute > 0 {
		p.seed, p.burst = rate.Limit(perMinute)/60, perMinute
	}
	p.bucket = rate.NewLimiter(p.seed, p.burst)
	return p
}

// Take takes room for one message and returns 0, or how long to wait before asking
// again.
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

// Took notes that the destination took a message: it may take more.
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

// TooMuch notes that the destination took a message for one too many, and when it wants
// the next one.
func (p *Pace) TooMuch(now time.Time, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := now.Add(min(again, longestEnd))
	if !until.After(p.until) {
		return // of one that was under way when it said so before
	}
	p.until, p.took = until, 0
	limit := p.bucket.Limit() * seeded
	if p.seed == unlimited {
		limit = min(p.bucket.Limit(), learnable) * unseeded
	}
	p.bucket.SetLimitAt(now, max(slowest, limit))
	p.bucket.SetBurstAt(now, 1) // what it took at once before was too much
}

// wait takes room for one message once there is some.
func (p *Pace) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := p.Take(time.Now())
		if wait == 0 {
			return nil
		}
		sleep(ctx, wait)
	}
	return ctx.Err()
}
