package home

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"baton/federation"
	"baton/federation/signing"
)

// DeferralTime is how long a step waits at most: longer than a usual outage of a host, and short enough to
// free the places that junk takes.
const DeferralTime = 24 * time.Hour

// The first and the last wait before a step is judged again; the waits between them double. The last
// one bounds how late a key is noticed that arrives without a notification.
const (
	firstWait = 30 * time.Second
	lastWait  = 10 * time.Minute
)

// maxDeferredInHandoff bounds the waiting steps of one handoff, which are read and judged together.
const maxDeferredInHandoff = 64

// maxLearned bounds the DIDs whose keys arrived since the last retry. The steps of further
// DIDs are judged again when they are due.
const maxLearned = 1024

// DeferralEnd is how the wait of a step ended.
type DeferralEnd struct {
	Step      federation.Deferred
	Judgement federation.Judgement
	Refused   *federation.RefusalError // nil where it was filed
	Expired   bool                     // it was given up
}

// DeferralConfig is what a [Deferral] works with.
type DeferralConfig struct {
	Record Deferrals
	// Seek starts the lookup of a key that is not at hand, and does not block. The caller calls
	// [Deferral.Learned] when the lookup found a key. Nil if the key source looks keys up itself.
	Seek func(ctx context.Context, ev federation.Event)
	// Blocked returns the refusal of a step whose source was blocked since it came in; nil blocks
	// nothing.
	Blocked func(ctx context.Context, ev federation.Event) error
	// Ended is called with each step whose wait ended, before the step is forgotten. After an error
	// it is called again later.
	Ended func(ctx context.Context, end DeferralEnd) error
	// Confirmed returns the time by which steps expire; nil uses the time of each call.
	Confirmed func() time.Time
}

// Deferral is the steps that cannot be judged until a key arrives: the host of the key of a signer
// may not answer. Each such step is on disk, and is judged again after waits that double, and at
// once when a key of its signer arrives. After [DeferralTime] it is given up, and the sender is
// told. The number of steps is bounded for each origin and in total. A step beyond the bound is
// refused, and may be sent again.
//
// The deferred steps of one handoff are judged in the order of arrival, by the keys and the clock
// of their first arrival. A refused step waits behind an earlier step whose filing could make it
// valid. A valid step does not wait: any client can send an unverifiable step in the name of any
// DID, and must not be able to block a handoff with it.
//
// One Deferral serves all configurations of a home. Make one with [NewDeferral].
type Deferral struct {
	cfg DeferralConfig

	mu      sync.Mutex
	busy    map[federation.HandoffID]bool // the handoffs with steps that are judged again now
	learned map[federation.DID]bool       // the DIDs with keys that arrived since the last retry
}

// NewDeferral returns a Deferral.
func NewDeferral(cfg DeferralConfig) *Deferral {
	return &Deferral{cfg: cfg, busy: map[federation.HandoffID]bool{}, learned: map[federation.DID]bool{}}
}

// Learned notes that a key of a DID arrived: its steps are judged again with the next
// [Home.Retry]. It does not block.
func (d *Deferral) Learned(did federation.DID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.learned) < maxLearned {
		d.learned[did] = true
	}
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

// deferStep keeps a step until it is judged again. A step beyond the limits is refused.
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
func (h *Home) retryBefore(ctx context.Context, ev federation.Event, now time.Time) ([]federation.Deferred, error) {
	p := retryPass{Deferral: h.Deferral, home: h, now: now, fits: func(w federation.Deferred) bool { return alike(w.Event, ev) }}
	if err := p.handoff(ctx, ev.Handoff); err != nil {
		return nil, err
	}
	return h.Deferral.cfg.Record.DeferredIn(ctx, ev.Handoff)
}
