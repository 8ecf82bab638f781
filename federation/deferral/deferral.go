// Package deferral keeps the steps that cannot be judged yet, until a key arrives.
//
// To check a signature a home needs the signer's key, and the host of the key may not
// answer. A [Deferral] passes on to the home each step that the home can judge. It keeps any
// other step on disk and judges it again, after waits that double, and at once when a key of
// the signer is learned. A step that waited for a day is given up, and its sender is told. The
// number of steps that wait is bounded, of each origin and in total; a step beyond that is
// refused, and may be sent again.
//
// # Order
//
// The steps that wait in one handoff are judged in the order in which they came. A step that
// the home refuses while an earlier one still waits, and that the earlier one could make good,
// waits behind it. A step that is good as the handoff stands does not wait: any client can
// send a step that cannot be checked, in the name of any DID, and must not be able to stop a
// handoff by that.
//
// A step is judged by the keys and by the clock of the time when it first came.
//
// A Deferral takes the record and the home as ports, and the time as an argument. Its
// methods may be called concurrently.
package deferral

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"baton/federation"
	"baton/federation/signing"
)

// Keep is how long a step waits at most: longer than the outage of a host that has an
// operator, short enough for junk to free its place.
const Keep = 24 * time.Hour

// The first and the last wait before a step is judged again; between them it doubles.
// The last is about how late the arrival of a key is noticed that is not notified.
const (
	firstWait = 30 * time.Second
	lastWait  = 10 * time.Minute
)

// maxInHandoff bounds what waits in one handoff, which is read and judged as a whole.
const maxInHandoff = 64

// maxLearned bounds the DIDs whose keys arrived since the last retry. The steps of further
// DIDs are judged again when they are due.
const maxLearned = 1024

// Rows keeps the steps that wait. Its methods block on the record. Each returns an error
// wrapping a [*federation.UnavailableError] while the record cannot be used.
type Rows interface {
	// Defer keeps a step with its evidence and gives it a Row. The same step twice waits once,
	// and is returned as it waits already. It returns [federation.ErrDeferralFull] and keeps nothing
	// where that would be one too many.
	Defer(ctx context.Context, d federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error)
	// DeferredIn returns all steps that wait in one handoff, in the order of arrival.
	DeferredIn(ctx context.Context, id federation.HandoffID) ([]federation.Deferred, error)
	// DeferredDue returns up to limit handoffs with a step that is to be judged again at a
	// time or before, the longest due first.
	DeferredDue(ctx context.Context, at time.Time, limit int) ([]federation.HandoffID, error)
	// DeferAgain notes why a step could still not be judged, and when it is judged again. A
	// step that does not wait is no error.
	DeferAgain(ctx context.Context, row int64, next time.Time, reason string) error
	// HastenDeferred makes the steps of a signer due at a time.
	HastenDeferred(ctx context.Context, signer federation.DID, at time.Time) error
	// EndDeferral ends the wait of a step. A step that does not wait is no error.
	EndDeferral(ctx context.Context, row int64) error
}

// Judge is the home.
type Judge interface {
	// Submit judges a step that has just come in, and files it where it is good.
	Submit(ctx context.Context, ev federation.Event, now time.Time) (federation.Judgement, error)
	// Resume is Submit for a step that came in at an earlier time and was let in then.
	Resume(ctx context.Context, ev federation.Event, since, now time.Time) (federation.Judgement, error)
}

// Ruling is what became of a step that waited.
type Ruling struct {
	Step      federation.Deferred
	Judgement federation.Judgement
	Refused   *federation.RefusalError // nil where it was filed
	Expired   bool                     // it was given up
}

// Config is what a [Deferral] works with.
type Config struct {
	Rows Rows
	// Judge and Limits may return others while the Deferral is used.
	Judge  func() Judge
	Limits func() federation.DeferralLimits
	// Seek starts the lookup of a key that the Judge does not have at hand, and does not
	// wait for it. [Deferral.Learned] is called when it has brought one. Nil where the Judge
	// looks keys up itself.
	Seek func(ctx context.Context, ev federation.Event)
	// Ended is told of each step that waits no more, before that is forgotten. Its error
	// means that it is to be told again.
	Ended func(ctx context.Context, r Ruling) error
}

// Deferral keeps steps that wait. Make one with [New].
type Deferral struct {
	cfg Config

	mu      sync.Mutex
	busy    map[federation.HandoffID]bool // the handoffs with steps that are judged again now
	learned map[federation.DID]bool       // the DIDs with keys that arrived since the last retry
}

// New returns a Deferral.
func New(cfg Config) *Deferral {
	return &Deferral{cfg: cfg, busy: map[federation.HandoffID]bool{}, learned: map[federation.DID]bool{}}
}

// Learned notes that a key of a DID arrived: its steps are judged again with the next
// [Deferral.Retry]. It does not block.
func (d *Deferral) Learned(did federation.DID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.learned) < maxLearned {
		d.learned[did] = true
	}
}

// Submit has the home judge a step, and defers the step where the home cannot judge it now.
// Its errors are the errors of the home; the refusal of a deferred step says that the step is
// on disk and waits. A step is deferred also where ctx ends meanwhile.
func (d *Deferral) Submit(ctx context.Context, ev federation.Event, now time.Time) (federation.Judgement, error) {
	waiting, err := d.cfg.Rows.DeferredIn(ctx, ev.Handoff)
	if err != nil {
		return federation.Judgement{}, err
	}
	if signedAlike(waiting, ev) {
		if waiting, err = d.retryBefore(ctx, ev, now); err != nil {
			return federation.Judgement{}, err
		}
	}
	judged, err := d.cfg.Judge().Submit(ctx, ev, now)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case isRefusal && checkable(refused, judged.Entry.Event):
		return d.park(ctx, judged, waiting, err, "the step waits for a key", now)
	case isRefusal && len(waiting) > 0 && mayYetBeGood(refused.Code):
		return d.park(ctx, judged, waiting, err, "a step before it waits for a key, and this one behind it", now)
	}
	return judged, err
}

// checkable reports whether all that a refused step is missing is a key.
func checkable(refused *federation.RefusalError, ev federation.Event) bool {
	return refused.Code == federation.SignatureUnverifiable && len(ev.Signature.Bytes) == ed25519.SignatureSize
}

// mayYetBeGood reports whether a step that was refused so may be good after others.
func mayYetBeGood(code federation.RefusalCode) bool {
	switch code { //nolint:exhaustive // no other step repairs the codes that are not named here
	case federation.UnknownHandoff, federation.IllegalStep, federation.WrongSender, federation.WrongReference:
		return true
	}
	return false
}

// park defers a step. A step beyond the limits is refused as before.
func (d *Deferral) park(
	ctx context.Context, judged federation.Judgement, waiting []federation.Deferred, cause error, why string, now time.Time,
) (federation.Judgement, error) {
	ev := judged.Entry.Event
	err := federation.ErrDeferralFull
	var kept federation.Deferred
	if len(waiting) < maxInHandoff {
		kept, err = d.cfg.Rows.Defer(context.WithoutCancel(ctx), federation.Deferred{
			Event: ev, Origin: ev.Arrival.Link, Since: now, Next: now.Add(firstWait), Reason: cause.Error(),
		}, d.cfg.Limits())
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

// signedAlike reports whether a step waits that is signed with the key of another one.
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

// retryBefore judges again those steps in the handoff of a new one that are signed
// with the key of that: the key is about to be looked up in any case, and a client that sends
// two steps means them in that order. It returns the steps that still wait.
func (d *Deferral) retryBefore(ctx context.Context, ev federation.Event, now time.Time) ([]federation.Deferred, error) {
	p := pass{Deferral: d, now: now, fits: func(w federation.Deferred) bool { return alike(w.Event, ev) }}
	if err := p.handoff(ctx, ev.Handoff); err != nil {
		return nil, err
	}
	return d.cfg.Rows.DeferredIn(ctx, ev.Handoff)
}
