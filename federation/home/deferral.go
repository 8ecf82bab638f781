package home

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/signing"
)

// DeferralTime bounds the wait of a step. It is longer than a usual outage of a host, and short
// enough to free the space used by junk.
const DeferralTime = 24 * time.Hour

// The maximum also bounds the delay of a key that arrives without a notification.
const (
	firstWait = 30 * time.Second
	lastWait  = 10 * time.Minute
)

// The deferred steps of a handoff are read and judged together.
const maxDeferredInHandoff = 64

// This bounds the DIDs whose keys arrived since the last retry. Steps of further DIDs are judged
// again when they are due.
const maxLearned = 1024

// DeferralEnd is the end of a deferral.
type DeferralEnd struct {
	Step      federation.Deferred
	Judgement federation.Judgement
	Refused   *federation.RefusalError // nil if it was filed
	Expired   bool
}

// DeferralConfig is the configuration of a [Deferral].
type DeferralConfig struct {
	Record Record
	// Seek starts the lookup of a missing key, and does not block. The caller calls
	// [Deferral.Learned] when a key is found. It is nil if the key source looks keys up itself.
	Seek func(ctx context.Context, ev federation.Event)
	// Blocked returns the refusal of a step whose source was blocked after its arrival. It may be
	// nil.
	Blocked func(ctx context.Context, ev federation.Event) error
	// Ended is called for each step at the end of its deferral, before the step is deleted. After
	// an error, it is called again later.
	Ended func(ctx context.Context, end DeferralEnd) error
	// Confirmed returns the time by which steps expire; nil uses the time of each call.
	Confirmed func() time.Time
}

// Deferral manages steps that wait for a key, for example because its host does not respond. Each
// such step is on disk. It is judged again with exponential backoff, and at once when a key of its
// signer arrives. After [DeferralTime] it is abandoned, and the sender is notified.
// The number of steps is limited for each origin and in total. A step above a limit is refused.
//
// The deferred steps of one handoff are judged in order of arrival, by the keys and the time of
// their first arrival. An invalid step waits behind an earlier step if filing that step could make
// it valid. A valid step does not wait, because any client can send an unverifiable step in the
// name of any DID, and must not block a handoff.
//
// One Deferral serves all configurations of a home. Create it with [NewDeferral].
type Deferral struct {
	cfg DeferralConfig

	mu      sync.Mutex
	busy    map[federation.HandoffID]bool // being judged again
	learned map[federation.DID]bool       // with keys that arrived since the last retry
}

// NewDeferral returns a Deferral.
func NewDeferral(cfg DeferralConfig) *Deferral {
	return &Deferral{cfg: cfg, busy: map[federation.HandoffID]bool{}, learned: map[federation.DID]bool{}}
}

// Learned records that a key of a DID arrived, without blocking. The next [Home.Retry] judges
// the steps of the DID again.
func (d *Deferral) Learned(did federation.DID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.learned) < maxLearned {
		d.learned[did] = true
	}
}

// checkable reports whether a step was refused only because a key is missing.
func checkable(refused *federation.RefusalError, ev federation.Event) bool {
	return refused.Code == federation.SignatureUnverifiable && len(ev.Signature.Bytes) == ed25519.SignatureSize
}

func maySucceedLater(code federation.RefusalCode) bool {
	switch code { //nolint:exhaustive // no other step repairs the codes that are not named here
	case federation.UnknownHandoff, federation.IllegalStep, federation.WrongSender, federation.WrongReference:
		return true
	}
	return false
}

// A step above the limits is refused.
func (h *Home) deferStep(
	ctx context.Context, judged federation.Judgement, waiting []federation.Deferred, cause error, why string, now time.Time,
) (federation.Judgement, error) {
	ev := judged.Entry.Event
	err := federation.ErrDeferralFull
	var kept federation.Deferred
	if len(waiting) < maxDeferredInHandoff {
		kept, err = h.Deferral.cfg.Record.Defer(context.WithoutCancel(ctx), federation.Deferred{
			Event: ev, Origin: ev.Arrival.Link, Since: now, Next: now.Add(firstWait), Reason: cause.Error(),
		}, h.Limits.Deferred)
	}
	refused, _ := errors.AsType[*federation.RefusalError](cause)
	switch {
	case errors.Is(err, federation.ErrDeferralFull) && refused.Code == federation.SignatureUnverifiable:
		return judged, errors.Join(federation.Refuse(ev, refused.Code, "too many steps wait for keys; send it again"), cause)
	case errors.Is(err, federation.ErrDeferralFull):
		return judged, cause
	case err != nil:
		return judged, err
	}
	judged.Entry.Event = kept.Event
	waits := federation.Refuse(kept.Event, federation.SignatureUnverifiable, why)
	waits.Waits = true
	return judged, errors.Join(waits, cause)
}

func signedAlike(waiting []federation.Deferred, ev federation.Event) bool {
	for _, w := range waiting {
		if alike(w.Event, ev) {
			return true
		}
	}
	return false
}

func alike(a, b federation.Event) bool {
	return a.From == b.From && signing.NamedKey(a.Signature.Text) == signing.NamedKey(b.Signature.Text)
}

// Runs before the key lookup for a new step, to keep the order of its sender. It returns the steps
// that are still deferred.
func (h *Home) retryBefore(ctx context.Context, ev federation.Event, now time.Time) ([]federation.Deferred, error) {
	p := retryPass{Deferral: h.Deferral, home: h, now: now, fits: func(w federation.Deferred) bool { return alike(w.Event, ev) }}
	if err := p.handoff(ctx, ev.Handoff); err != nil {
		return nil, err
	}
	return h.Deferral.cfg.Record.DeferredIn(ctx, ev.Handoff)
}

const (
	maxRetried    = 256 // handoffs per call
	retriedAtOnce = 16  // handoffs: enough for their commits to share an fsync
)

// Retry judges the due steps again, with all deferred steps of their handoffs. It reports whether
// more steps are due. It blocks on the record, and on the network only if the key source does.
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

type retryPass struct {
	*Deferral

	home *Home
	now  time.Time
	fits func(federation.Deferred) bool
	seek func(ctx context.Context, ev federation.Event) // may be nil

	away sync.Map // DIDs with unavailable keys, so that their host is queried only once
}

type retryOutcome int

const (
	waits retryOutcome = iota
	ended
	limited // valid, but over a rate limit: later steps must wait too
)

// Does nothing while another goroutine judges the handoff.
func (p *retryPass) handoff(ctx context.Context, id federation.HandoffID) error {
	if !p.claim(id) {
		return nil
	}
	defer p.leave(id)
	waiting, err := p.cfg.Record.DeferredIn(ctx, id)
	if err != nil {
		return err
	}
	behind := false // an earlier step is still deferred
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

// After an error of the record or of [DeferralConfig].Ended, the step stays deferred.
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
		p.Learned(w.Event.From) // the host of this key responds, so query it for other steps too
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

func (p *retryPass) judgeAgain(ctx context.Context, w federation.Deferred) (federation.Judgement, error) {
	if p.cfg.Blocked != nil {
		if err := p.cfg.Blocked(ctx, w.Event); err != nil {
			return federation.Judgement{}, err
		}
	}
	return p.home.judge(ctx, Submission{Event: w.Event, Since: w.Since, Resumed: true}, p.now)
}

// wait postpones a step, or abandons it after [DeferralTime].
func (p *retryPass) wait(ctx context.Context, w federation.Deferred, why string) (retryOutcome, error) {
	last := w.Since.Add(DeferralTime)
	if !p.ends().Before(last) {
		refused := federation.Refuse(w.Event, federation.SignatureUnverifiable, "no key was found within "+DeferralTime.String())
		return p.end(ctx, DeferralEnd{Step: w, Refused: refused, Expired: true})
	}
	next := p.now.Add(waitAfter(w.Tried))
	if next.After(last) {
		next = last
	}
	return waits, p.cfg.Record.DeferAgain(ctx, w.Row, next, why)
}

func (p *retryPass) ends() time.Time {
	if p.cfg.Confirmed == nil {
		return p.now
	}
	return p.cfg.Confirmed()
}

func waitAfter(tried int) time.Duration {
	wait := firstWait
	for range tried + 1 {
		wait = min(2*wait, lastWait)
	}
	return wait
}

// Reports the end before it deletes the step. If the report fails, both are retried later.
func (p *retryPass) end(ctx context.Context, r DeferralEnd) (retryOutcome, error) {
	if err := p.cfg.Ended(ctx, r); err != nil {
		return waits, errors.Join(err, p.cfg.Record.DeferAgain(ctx, r.Step.Row, p.now.Add(waitAfter(r.Step.Tried)), err.Error()))
	}
	return ended, p.cfg.Record.EndDeferral(ctx, r.Step.Row)
}
