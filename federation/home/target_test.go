package home_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestSubmitRefusesOffersToImpossibleDIDs(t *testing.T) {
	b := newBench(t)
	nobody := federation.DID("did:key:nobody")
	b.home.CheckDID = func(did federation.DID) error {
		if did == nobody {
			return errors.New("no key")
		}
		return nil
	}
	offer := func(n int, to federation.DID) error {
		_, err := b.home.Submit(t.Context(), b.step(n, b.alice, federation.Offer, func(ev *federation.Event) { ev.To = to }), b.now)
		return err
	}
	refused, _ := errors.AsType[*federation.RefusalError](offer(1, nobody))
	if refused == nil || refused.Code != federation.InvalidTarget || refused.Sentence() != "a step cannot be sent there: no key" {
		t.Errorf("an offer to %s is refused with %v", nobody, refused)
	}
	if b.view(1).Exists() {
		t.Error("it is on file")
	}
	for n, to := range []federation.DID{b.bob.did, ""} {
		if err := offer(n+2, to); err != nil {
			t.Errorf("an offer to %q: %v", to, err)
		}
	}
}
