package delivery

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates are in messages per second.
const (
	learnable  = 10   // initial rate without an advertised one, after the first rate limit error
	unseeded   = 0.5  // factor after such an error, without an advertised rate
	seeded     = 0.8  // factor after such an error, with an advertised rate
	faster     = 1.05 // factor of the rate, up to the seed, after fasterPer messages
	fasterPer  = 8    // consecutive messages accepted by the peer
	slowest    = 1.0 / 60
	unlimited  = 1 << 20     // higher than any rate of the gateway
	longestEnd = time.Minute // longest pause of all messages that a peer can request
)

// Pace limits the messages to one destination by a token bucket. Its rate falls after a rate limit
// error, and rises again up to its original value. It is safe for concurrent use.
type Pace struct {
	mu     sync.Mutex
	bucket *rate.Limiter
	seed   rate.Limit
	burst  int
	took   int       // messages since the last rate change
	until  time.Time // no message is sent before
}

// NewPace returns the pace of a destination that accepts perMinute messages per minute, even in one
// burst. 0 means no limit.
func NewPace(perMinute int) *Pace {
	p := &Pace{seed: unlimited, burst: unlimited}
	if perMinute > 0 {
		p.seed, p.burst = rate.Limit(perMinute)/60, perMinute
	}
	p.bucket = rate.NewLimiter(p.seed, p.burst)
	return p
}

// Take counts one message and returns 0, or returns the wait before the next call.
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

// Wait returns the time until [Pace.Take] succeeds, or 0.
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

// Took records that the destination accepted a message, which may raise the rate.
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

// TooMuch records a rate limit error of the destination, and the wait before it accepts the next
// message. The rate falls.
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
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return ctx.Err()
}
