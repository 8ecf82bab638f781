package home_test

import (
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/home"
	"baton/federation/store/storetest"
)

// punctualDeferrals is a record that keeps nothing for a caller that left.
type punctualDeferrals struct{ home.Deferrals }

func (p punctualDeferrals) Defer(ctx context.Context, step federation.Deferred, limits federation.DeferralLimits) (federation.Deferred, error) {
	if ctx.Err() != nil {
		return federation.Deferred{}, context.Cause(ctx)
	}
	return p.Deferrals.Defer(ctx, step, limits)
}

// cutOff is a directory that is asked for a caller that leaves meanwhile.
type cutOff struct {
	*directory

	leave context.CancelFunc
}

func (c cutOff) Keys(ctx context.Context, _ federation.KeyQuery) ([]ed25519.PublicKey, error) {
	c.leave()
	return nil, &federation.UnavailableError{What: "directory", Err: context.Cause(ctx)}
}

func TestAStepWhoseLinkEndsDuringItsLookupIsKept(t *testing.T) {
	b := newDeferralBench(t, storetest.Open(t))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	b.home.Keys = cutOff{b.directory, leave}
	b.home.Deferral = home.NewDeferral(home.DeferralConfig{Record: punctualDeferrals{b.record}})
	offer := b.step(1, federationtest.ID(1), b.alice, federation.Offer)
	_, _ = b.home.Submit(ctx, offer, federationtest.At(1)) // the signer has no connection
	waiting, err := b.record.DeferredIn(t.Context(), offer.Handoff)
	if err != nil || len(waiting) != 1 {
		t.Errorf("%d steps wait, %v; want the one", len(waiting), err)
	}
}

func TestALookupIsStartedForEachStepThatIsDueAndForNoOther(t *testing.T) {
	b := newDeferralBench(t, storetest.Open(t))
	var sought []federation.DID
	b.home.Deferral = home.NewDeferral(home.DeferralConfig{
		Record: b.record,
		Seek:   func(_ context.Context, ev federation.Event) { sought = append(sought, ev.From) },
		Ended:  func(context.Context, home.DeferralEnd) error { return nil },
	})
	b.directory.set(true, b.alice)
	b.mustWait(federationtest.At(1), b.step(1, federationtest.ID(1), b.alice, federation.Offer))
	if sought != nil {
		t.Errorf("%v are looked up for a step that has just come in, want that its caller does that", sought)
	}
	b.retry(federationtest.At(1).Add(time.Second))
	if sought != nil {
		t.Errorf("%v are looked up before the step is due", sought)
	}
	b.retry(federationtest.At(1).Add(time.Hour))
	if diff := cmp.Diff([]federation.DID{b.alice.did}, sought); diff != "" {
		t.Errorf("looked up (-want +got):\n%s", diff)
	}
}
