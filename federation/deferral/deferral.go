// Package deferral keeps steps that cannot be judged until a key arrives.
//
// A home verifies a signature with the key of the signer, and the host of that key may not answer. A
// [Deferral] submits each step to the home. It keeps a step that the home cannot judge on disk and
// submits it again: after waits that double, and at once when a key of the signer arrives. After a
// day it gives the step up, and the sender is told. The number of waiting steps is bounded for each
// origin and in total. A step beyond the bound is refused, and may be sent again.
//
// # Order
//
// The waiting steps of one handoff are judged in the order of arrival. A step that the home refuses
// waits behind an earlier step whose filing could make it valid. A step that is valid now does not
// wait: any client can send an unverifiable step in the name of any DID, and must not be able to
// block a handoff with it.
//
// A step is judged by the keys and the clock of its first arrival.
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

// Keep is how long a step waits at most: longer than a usual outage of a host, and short enough to
// free the places that junk takes.
const Keep = 24 * time.Hour

// The first and the last wait before a step is judged again; the waits between them double. The last
// one bounds how late a key is noticed that arrives without a notification.
const (
	firstWait = 30 * time.Second
	lastWait  = 10 * time.Minute
)

// maxInHandoff bounds the waiting steps of one handoff, which are read and judged together.
const maxInHandoff = 64

// maxLearned bounds the DIDs whose keys arrived since the last retry. The steps of further
// DIDs are judged again when they are due.
const maxLearned = 1024

// Rows keeps the steps that wait. Its methods block on the record. Each returns an error
// wrapping a [*federation.UnavailableError] while the record cannot be used.
type Rows interface {
	// Defer keeps a step with its evidence and gives it a Row. A step that waits already is returned
	// as it is kept. Defer returns [federation.ErrDeferralFull], and keeps nothing, beyond the
	// limits.
	Defer(ctx context.Context, d federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error)
	// DeferredIn returns all steps that wait in one handoff, in the order of arrival.
	DeferredIn(ctx context.Context, id federation.HandoffID) ([]federation.Deferred, error)
	// DeferredDue returns up to limit handoffs with a step that is to be judged again at a
	// time or before, the longest due first.
	DeferredDue(ctx context.Context, at time.Time, limit int) ([]federation.HandoffID, error)
	// DeferAgain notes why a step could not be judged again, and when it is judged next. A step that
	// does not wait is no error.
	DeferAgain(ctx context.Context, row int64, next time.Time, reason string) error
	// HastenDeferred makes the steps of a signer due at a time.
	HastenDeferred(ctx context.Context, signer federation.DID, at time.Time) error
	// EndDeferral ends the wait of a step. A step that does not wait is no error.
	EndDeferral(ctx context.Context, row int64) error
}

// Judge is the home.
type Judge interface {
	// Submit judges a step that has just arrived, and files it where it is valid.
	Submit(ctx context.Context, ev federation.Event, now time.Time) (federation.Judgement, error)
	// Resume is Submit for a step that arrived, and was admitted, at an earlier time.
	Resume(ctx context.Context, ev federation.Event, since, now time.Time) (federation.Judgement, error)
}

// Ruling is how the wait of a step ended.
type Ruling struct {
	Step      federation.Deferred
	Judgement federation.Judgement
	Refused   *federation.RefusalError // nil where it was filed
	Expired   bool                     // it was given up
}

// Config is what a [Deferral] works with.
type Config struct {
	Rows Rows
	// Judge and Limits are called for each step: a reload may change their results.
	Judge  func() Judge
	Limits func() federation.DeferralLimits
	// Seek starts the lookup of a key that the Judge does not have at hand, and does not block. The
	// caller calls [Deferral.Learned] when the lookup found a key. Nil where the Judge looks keys up
	// itself.
	Seek func(ctx context.Context, ev federation.Event)
	// Ended is called with each step whose wait ended, before the step is forgotten. After an error
	// it is called again later.
	Ended func(ctx context.Context, r Ruling) error
	// Confirmed returns the time by which steps expire; nil uses the time of each call.
	Confirmed func() time.Time
}

// Deferral keeps waiting steps. Make one with [New].
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

// Submit has the home judge a step, and defers a step that the home cannot judge now, also where ctx
// ends meanwhile. Its errors are the errors of the home. The refusal of a deferred step has Waits: the
// step is on disk.
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
		return d.keep(ctx, judged, waiting, err, "the step waits for a key", now)
	case isRefusal && len(waiting) > 0 && maySucceedLater(refused.Code):
		return d.keep(ctx, judged, waiting, err, "the step waits behind an earlier one, which waits for a key", now)
	}
	return judged, err
}

// checkable reports whether a refused step lacks nothing but a key.
func checkable(refused *federation.RefusalError, ev federation.Event) bool {
	return refused.Code == federation.SignatureUnverifiable && len(ev.Signature.Bytes) == ed25519.SignatureSize
}

// maySucceedLater reports whether a step that was refused with a code may be valid after other steps.
func maySucceedLater(code federation.RefusalCode) bool {
	switch code { //nolint:exhaustive // no other step repairs the codes that are not named here
	case federation.UnknownHandoff, federation.IllegalStep, federation.WrongSender, federation.WrongReference:
		return true
	}
	return false
}

// keep defers a step. A step beyond the limits is refused.
func (d *Deferral) keep(
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

// signedAlike reports whether a waiting step has the signing key of another step.
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

// retryBefore judges the waiting steps again that are in the handoff of a new step and have its
// signing key: that key is about to be looked up, and the sender means the steps in this order. It
// returns the steps that still wait.
func (d *Deferral) retryBefore(ctx context.Context, ev federation.Event, now time.Time) ([]federation.Deferred, error) {
	p := pass{Deferral: d, now: now, fits: func(w federation.Deferred) bool { return alike(w.Event, ev) }}
	if err := p.handoff(ctx, ev.Handoff); err != nil {
		return nil, err
	}
	return d.cfg.Rows.DeferredIn(ctx, ev.Handoff)
}
