package relay

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Say puts an operator's word on the other home in the place of its configuration; ""
// takes it back. It holds at once, also for what is under way.
func (p *Peer) Say(word Mode) {
	if before := p.word.Swap(&word); before == nil || *before != word {
		select {
		case p.turned <- struct{}{}:
		default: // one token says as much as two
		}
	}
}

// Word returns what an operator said of the other home; "" for none.
func (p *Peer) Word() Mode {
	if word := p.word.Load(); word != nil {
		return *word
	}
	return ""
}

// Mode returns what the other home may do here.
func (p *Peer) Mode() Mode { return cmp.Or(p.Word(), p.cfg.Mode) }

// whileBlocked blocks for as long as the other home is blocked, or else for as long as it
// is not, or ctx does not end.
func (p *Peer) whileBlocked(ctx context.Context, blocked bool) error {
	for (p.Mode() == Block) == blocked {
		select {
		case <-p.turned:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// tap holds what a home sends to its mode. It is safe for concurrent use.
type tap struct{ flow *rate.Limiter }

func newTap() tap { return tap{flow: rate.NewLimiter(limitedRate, maxItems)} }

// wait returns how long to wait before so many steps are taken; 0 for not at all.
func (t tap) wait(mode Mode, steps int, now time.Time) time.Duration {
	switch {
	case steps == 0:
		return 0
	case mode == Hold, mode == Limit && !t.flow.AllowN(now, steps):
		return laterAfter
	}
	return 0
}
