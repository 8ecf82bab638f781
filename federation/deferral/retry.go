package deferral

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/federation"
)

// Bounds of one retry.
const (
	maxHandoffs = 256 // looked at by one call
	maxLanes    = 16  // judged side by side: enough for their commits to share an fsync
)

// Retry judges the steps again that are due, and all that wait in the same handoffs. The
// result more says that others are due still. It blocks on the record, and on the network only
// where the Judge does.
func (d *Deferral) Retry(ctx context.Context, now time.Time) (more bool, err error) {
	if err := d.hasten(ctx, now); err != nil {
		return false, err
	}
	due, err := d.cfg.Rows.DeferredDue(ctx, now, maxHandoffs)
	if err != nil {
		return false, err
	}
	p := pass{Deferral: d, now: now, fits: func(federation.Deferred) bool { return true }, seek: d.cfg.Seek}
	var group errgroup.Group
	group.SetLimit(maxLanes)
	errs := make([]error, len(due))
	for i, id := range due {
		group.Go(func() error {
			errs[i] = p.handoff(ctx, id)
			return nil
		})
	}
	_ = group.Wait() // each handoff has its own error
	err = errors.Join(errs...)
	return err == nil && (len(due) == maxHandoffs || d.anyLearned()), err
}

// hasten makes the steps due of the signers with keys that arrived.
func (d *Deferral) hasten(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	learned := slices.Collect(maps.Keys(d.learned))
	clear(d.learned)
	d.mu.Unlock()
	for i, did := range learned {
		if err := d.cfg.Rows.HastenDeferred(ctx, did, now); err != nil {
			for _, left := range learned[i:] {
				d.Learned(left)
			}
			return err
		}
	}
	return nil
}

func (d *Deferral) anyLearned() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.learned) > 0
}

// pass goes once over steps that wait.
type pass struct {
	*Deferral

	now  time.Time
	fits func(federation.Deferred) bool                 // which steps it looks at
	seek func(ctx context.Context, ev federation.Event) // starts the lookup of a key; nil for none

	away sync.Map // DIDs with keys that could not be fetched, so that their host is asked once
}

// standing is how a step stands after it was judged again.
type standing int

const (
	waits standing = iota
	ended
	hurried // it is valid, and over a rate limit now: the steps after it have to wait too
)

// handoff judges the steps that wait in one handoff, in order. Where another goroutine does
// so at that moment, there is nothing left to do.
func (p *pass) handoff(ctx context.Context, id federation.HandoffID) error {
	if !p.claim(id) {
		return nil
	}
	defer p.leave(id)
	waiting, err := p.cfg.Rows.DeferredIn(ctx, id)
	if err != nil {
		return err
	}
	behind := false // whether a step before still waits
	for _, w := range waiting {
		if !p.fits(w) {
			behind = true
			continue
		}
		stands, err := p.judge(ctx, w, behind)
		if err != nil || stands == hurried {
			return err
		}
		behind = behind || stands == waits
	}
	return nil
}

func (d *Deferral) claim(id federation.HandoffID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[id] {
		return false
	}
	d.busy[id] = true
	return true
}

func (d *Deferral) leave(id federation.HandoffID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, id)
}

// judge judges one step again. Its error is that of the record, or of [Config].Ended; the
// step waits on then.
func (p *pass) judge(ctx context.Context, w federation.Deferred, behind bool) (standing, error) {
	if _, away := p.away.Load(w.Event.From); away {
		return p.wait(ctx, w, "its keys were asked for just now, in vain")
	}
	if p.seek != nil {
		p.seek(ctx, w.Event)
	}
	judged, err := p.cfg.Judge().Resume(ctx, w.Event, w.Since, p.now)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case err == nil:
		p.Learned(w.Event.From) // the host of this key answers, so ask it about other steps too
		return p.end(ctx, Ruling{Step: w, Judgement: judged})
	case !isRefusal:
		return waits, err
	case refused.Code == federation.SignatureUnverifiable:
		if _, away := errors.AsType[*federation.UnavailableError](err); away {
			p.away.Store(w.Event.From, true)
		}
		return p.wait(ctx, w, err.Error())
	case refused.Code == federation.RateLimited:
		next := p.now.Add(cmp.Or(refused.RetryAfter, time.Second))
		return hurried, p.cfg.Rows.DeferAgain(ctx, w.Row, next, err.Error())
	case behind && mayYetBeGood(refused.Code) && p.now.Before(w.Since.Add(Keep)):
		return p.wait(ctx, w, err.Error())
	}
	return p.end(ctx, Ruling{Step: w, Judgement: judged, Refused: refused})
}

// wait puts a step off, unless it has waited long enough.
func (p *pass) wait(ctx context.Context, w federation.Deferred, why string) (standing, error) {
	last := w.Since.Add(Keep)
	if !p.now.Before(last) {
		refused := federation.Refuse(w.Event, federation.SignatureUnverifiable, "no key came within "+Keep.String())
		return p.end(ctx, Ruling{Step: w, Refused: refused, Expired: true})
	}
	next := p.now.Add(waitAfter(w.Tried))
	if next.After(last) {
		next = last
	}
	return waits, p.cfg.Rows.DeferAgain(ctx, w.Row, next, why)
}

// waitAfter returns how long a step waits that was judged so often in vain, besides
// the first time and this one.
func waitAfter(tried int) time.Duration {
	wait := firstWait
	for range tried + 1 {
		wait = min(2*wait, lastWait)
	}
	return wait
}

// end tells what became of a step, and then forgets it: when the first cannot be done
// now, both are done later.
func (p *pass) end(ctx context.Context, r Ruling) (standing, error) {
	if err := p.cfg.Ended(ctx, r); err != nil {
		return waits, errors.Join(err, p.cfg.Rows.DeferAgain(ctx, r.Step.Row, p.now.Add(waitAfter(r.Step.Tried)), err.Error()))
	}
	return ended, p.cfg.Rows.EndDeferral(ctx, r.Step.Row)
}
