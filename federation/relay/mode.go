package relay

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Mode is what another home may do here.
type Mode string

// The modes.
const (
	Allow Mode = "allow" // steps go both ways
	Limit Mode = "limit" // the same, a few a second
	Hold  Mode = "hold"  // the home is told to send later, and deliveries to it wait
	Block Mode = "block" // the home is refused, and deliveries to it end as dead letters
)

// limitedRate is how many steps a second a home in mode limit may send.
const limitedRate = 10

// SetOperatorMode sets the mode that an operator chose in place of the configured one; "" restores
// the configured one. It takes effect at once, also for exchanges in progress.
func (p *Peer) SetOperatorMode(mode Mode) {
	if before := p.operatorMode.Swap(&mode); before == nil || *before != mode {
		select {
		case p.modeChanged <- struct{}{}:
		default: // one token stands for several changes
		}
	}
}

// OperatorMode returns the mode that an operator chose; "" for none.
func (p *Peer) OperatorMode() Mode {
	if mode := p.operatorMode.Load(); mode != nil {
		return *mode
	}
	return ""
}

// Mode returns what the other home may do here.
func (p *Peer) Mode() Mode { return cmp.Or(p.OperatorMode(), p.cfg.Mode) }

// whileBlocked waits until the other home is no longer blocked, or with false until it is blocked,
// or until ctx ends.
func (p *Peer) whileBlocked(ctx context.Context, blocked bool) error {
	for (p.Mode() == Block) == blocked {
		select {
		case <-p.modeChanged:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// modeLimiter applies the mode of a home to the steps that it sends. It is safe for concurrent use.
type modeLimiter struct{ flow *rate.Limiter }

func newModeLimiter() modeLimiter { return modeLimiter{flow: rate.NewLimiter(limitedRate, maxItems)} }

// admits counts a number of steps of the sender, and reports whether it may send them now.
func (t modeLimiter) admits(mode Mode, steps int, now time.Time) bool {
	return steps == 0 || mode != Hold && (mode != Limit || t.flow.AllowN(now, steps))
}
