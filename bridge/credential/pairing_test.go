package credential_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestPairingCodeIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	record, guesses, from := storetest.Open(t).Participants, credential.NewGuesses(), netip.MustParsePrefix("192.0.2.1/32")
	code, ends, err := credential.NewPairing(t.Context(), record, "did:key:ada", "k", true, now())
	if err != nil || len(code) != 9 || code[4] != '-' || ends != now().Add(10*time.Minute) {
		t.Fatalf("NewPairing: %q until %s, %v", code, ends, err)
	}
	got, err := guesses.Redeem(t.Context(), record, code, from, now())
	if err != nil || got.DID != "did:key:ada" || got.Key != "k" || !got.Bound {
		t.Errorf("Redeem: %+v, %v", got, err)
	}
	if _, err := guesses.Redeem(t.Context(), record, code, from, now()); !errors.Is(err, credential.ErrPairing) {
		t.Errorf("Redeem again: %v", err)
	}
}

func TestPairingCodeGuessesAreLimitedPerAddress(t *testing.T) {
	t.Parallel()
	guesses, from, other := credential.NewGuesses(), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	right, wrong := func() error { return nil }, func() error { return federation.ErrNotFound }
	for range 20 {
		if err := guesses.Guess(from, now(), right); err != nil {
			t.Fatalf("a correct code: %v", err)
		}
	}
	for range 5 {
		if err := guesses.Guess(from, now(), wrong); !errors.Is(err, credential.ErrPairing) {
			t.Fatalf("a wrong code: %v", err)
		}
	}
	refused, ok := errors.AsType[*federation.RefusalError](guesses.Guess(from, now(), right))
	if !ok || refused.Code != federation.RateLimited || refused.RetryAfter != 12*time.Second {
		t.Errorf("after five wrong codes: %+v", refused)
	}
	if err := guesses.Guess(other, now(), right); err != nil {
		t.Errorf("another address: %v", err)
	}
	if err := guesses.Guess(from, now().Add(time.Minute), right); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}
