package home

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
	"baton/federation/fault"
)

// Bounds of one retry.
const (
	maxRetried    = 256 // handoffs of one call
	retriedAtOnce = 16  // handoffs that are judged at a time: enough for their commits to share an fsync
)

// Retry judges the due steps again, with all waiting steps of their handoffs. The result more says
// that other steps are due. It blocks on the record, and on the network only where the key source does.
func (h *Home) Retry(ctx context.Context, now time.Time) (more bool, err error) {
	d := h.Deferral
	if err := d.hasten(ctx, now); err != nil {
		return false, err
	}
	due, err := d.cfg.Record.DeferredDue(ctx, now, maxRetried)
	if err != nil {
		return false, err
	}
	p := retryPass{Deferral: d, home: h, now: now, fits: func(federation.Deferred) bool { return true }, seek: d.cfg.Seek}
	var group errgroup.Group
	group.SetLimit(retriedAtOnce)
	errs := make([]error, len(due))
	for i, id := range due {
		group.Go(func() error {
			errs[i] = fault.Catch(func() error { return p.handoff(ctx, id) })
			return nil
		})
	}
	_ = group.Wait() // each handoff has its own error
	err = errors.Join(errs...)
	fault.Again(err)
	return err == nil && (len(due) == maxRetried || d.anyLearned()), err
}

// hasten makes the steps of signers due whose keys arrived.
func (d *Deferral) hasten(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	learned := slices.Collect(maps.Keys(d.learned))
	clear(d.learned)
	d.mu.Unlock()
	for i, did := range learned {
		if err := d.cfg.Record.HastenDeferred(ctx, did, now); err != nil {
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

// retryPass is one pass over waiting steps.
type retryPass struct {
	*Deferral

	home *Home
	now  time.Time
	fits func(federation.Deferred) bool                 // selects steps
	seek func(ctx context.Context, ev federation.Event) // starts the lookup of a key; nil for none

	away sync.Map // DIDs with keys that could not be fetched, so that their host is asked once
}

// retryOutcome is the result of judging a step again.
type retryOutcome int

const (
	waits retryOutcome = iota
	ended
	limited // valid, but over a rate limit now: the steps after it have to wait too
)

// handoff judges the waiting steps of one handoff in order. It does nothing while another goroutine
// judges them.
func (p *retryPass) handoff(ctx context.Context, id federation.HandoffID) error {
	if !p.claim(id) {
		return nil
	}
	defer p.leave(id)
	waiting, err := p.cfg.Record.DeferredIn(ctx, id)
	if err != nil {
		return err
	}
	behind := false // an earlier step still waits
	for _, w := range waiting {
		if !p.fits(w) {
			behind = true
			continue
		}
		after, err := p.judge(ctx, w, behind)
		if err != nil || after == limited {
			return err
		}
		behind = behind || after == waits
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

// judge judges one step again. After an error, that of the record or of [DeferralConfig].Ended, the step
// keeps waiting.
func (p *retryPass) judge(ctx context.Context, w federation.Deferred, behind bool) (retryOutcome, error) {
	if _, away := p.away.Load(w.Event.From); away {
		return p.wait(ctx, w, "the host of its keys did not answer a moment ago")
	}
	if p.seek != nil {
		p.seek(ctx, w.Event)
	}
	judged, err := p.judgeAgain(ctx, w)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case err == nil:
		p.Learned(w.Event.From) // the host of this key answers, so ask it about other steps too
		return p.end(ctx, DeferralEnd{Step: w, Judgement: judged})
	case !isRefusal:
		return waits, err
	case refused.Code == federation.SignatureUnverifiable:
		if _, away := errors.AsType[*federation.UnavailableError](err); away {
			p.away.Store(w.Event.From, true)
		}
		return p.wait(ctx, w, err.Error())
	case refused.Code == federation.RateLimited:
		next := p.now.Add(cmp.Or(refused.RetryAfter, time.Second))
		return limited, p.cfg.Record.DeferAgain(ctx, w.Row, next, err.Error())
	case behind && maySucceedLater(refused.Code) && p.ends().Before(w.Since.Add(DeferralTime)):
		return p.wait(ctx, w, err.Error())
	}
	return p.end(ctx, DeferralEnd{Step: w, Judgement: judged, Refused: refused})
}

// judgeAgain submits a step whose source is not blocked now.
func (p *retryPass) judgeAgain(ctx context.Context, w federation.Deferred) (federation.Judgement, error) {
	if p.cfg.Blocked != nil {
		if err := p.cfg.Blocked(ctx, w.Event); err != nil {
			return federation.Judgement{}, err
		}
	}
	return p.home.submit(ctx, w.Event, w.Since, p.now, true)
}

// wait puts a step off, or gives it up after [DeferralTime].
func (p *retryPass) wait(ctx context.Context, w federation.Deferred, why string) (retryOutcome, error) {
	last := w.Since.Add(DeferralTime)
	if !p.ends().Before(last) {
		refused := federation.Refuse(w.Event, federation.SignatureUnverifiable, "no key came within "+DeferralTime.String())
		return p.end(ctx, DeferralEnd{Step: w, Refused: refused, Expired: true})
	}
	next := p.now.Add(waitAfter(w.Tried))
	if next.After(last) {
		next = last
	}
	return waits, p.cfg.Record.DeferAgain(ctx, w.Row, next, why)
}

// ends returns the time by which steps expire.
func (p *retryPass) ends() time.Time {
	if p.cfg.Confirmed == nil {
		return p.now
	}
	return p.cfg.Confirmed()
}

// waitAfter returns the next wait of a step after so many retries before this one.
func waitAfter(tried int) time.Duration {
	wait := firstWait
	for range tried + 1 {
		wait = min(2*wait, lastWait)
	}
	return wait
}

// end reports the end of a wait, and then forgets the step. If the report fails, both are done later.
func (p *retryPass) end(ctx context.Context, r DeferralEnd) (retryOutcome, error) {
	if err := p.cfg.Ended(ctx, r); err != nil {
		return waits, errors.Join(err, p.cfg.Record.DeferAgain(ctx, r.Step.Row, p.now.Add(waitAfter(r.Step.Tried)), err.Error()))
	}
	return ended, p.cfg.Record.EndDeferral(ctx, r.Step.Row)
}
