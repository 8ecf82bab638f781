package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runBindings(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("an empty record knows no DID", s.testStranger)
	t.Run("the newest of a signer is kept, and the first name", s.testBinding)
	t.Run("each step is seen at once by a reader that looked before it", s.testBindingLookedAtBefore)
	t.Run("the time of a signer who does not move is at most a minute old", s.testBindingAge)
	t.Run("a vouched step binds the DID that it stands for, without the key", s.testBindingOfVouched)
	t.Run("a signer without a name has a key and no binding", s.testNameless)
	t.Run("a key stays with its first owner", s.testKeyOwner)
	t.Run("a key that the gateway keeps has the DID that it is kept for", s.testKeptKey)
	t.Run("a hash names one DID or none", s.testHash)
}

func (s suite) testStranger(t *testing.T) {
	record := s.open(t)
	_, byDID := record.Binding(t.Context(), ada)
	_, byHash := record.BindingByHash(t.Context(), ada.Hash())
	_, owner := record.KeyOwner(t.Context(), federation.KeyID(federationtest.Key(ada)))
	for _, err := range []error{byDID, byHash, owner} {
		if !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("error is %v, want ErrNotFound", err)
		}
	}
}

func (s suite) testBinding(t *testing.T) {
	record := s.open(t)
	for n, name := range []string{"ada", "ada_away", "", "ada_"} {
		offer := federationtest.Offer(n+1, ada, bob)
		offer.Arrival.Name = name
		offer.Arrival.Link = "link-of-" + name
		if n == 3 {
			offer.Signature.Key = nil // verified elsewhere
		}
		mustAppend(t, record, federationtest.File(offer, federation.View{}))
	}
	want := federation.Binding{
		DID: ada, Network: "spanningtree", Link: "link-of-ada_", Name: "ada_", First: "ada",
		Key: federationtest.Key(ada), Seen: federationtest.At(4),
	}
	for _, prefix := range []string{"", ada.Hash(), ada.Hash()[:10]} {
		got, err := record.Binding(t.Context(), ada)
		if prefix != "" {
			got, err = record.BindingByHash(t.Context(), prefix)
		}
		if err != nil {
			t.Errorf("by %q: %v", prefix, err)
		}
		if d := diff(want, got); d != "" {
			t.Errorf("by %q (-want +got):\n%s", prefix, d)
		}
	}
	if owner, err := record.KeyOwner(t.Context(), federation.KeyID(federationtest.Key(ada))); err != nil || owner != ada {
		t.Errorf("KeyOwner = %s, %v, want %s", owner, err, ada)
	}
}

func (s suite) testBindingLookedAtBefore(t *testing.T) {
	record := s.open(t)
	for range 2 { // and again, which may be answered from memory
		if b, err := record.Binding(t.Context(), ada); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("Binding before any step = %+v, %v, want ErrNotFound", b, err)
		}
	}
	for n, name := range []string{"ada", "ada_away", "ada"} {
		offer := federationtest.Offer(n+1, ada, bob)
		offer.Arrival.Name = name
		mustAppend(t, record, federationtest.File(offer, federation.View{}))
		for range 2 {
			if b, err := record.Binding(t.Context(), ada); err != nil || b.Name != name || !b.Seen.Equal(federationtest.At(n+1)) {
				t.Errorf("Binding after step %d = %+v, %v, want the name %s, seen at %v", n+1, b, err, name, federationtest.At(n+1))
			}
		}
	}
}

func (s suite) testBindingAge(t *testing.T) {
	record := s.open(t)
	for _, n := range []int{1, 2, 59, 61, 200, 201} {
		offer := federationtest.Offer(n, ada, bob)
		offer.Arrival.Name = "ada"
		mustAppend(t, record, federationtest.File(offer, federation.View{}))
		b, err := record.Binding(t.Context(), ada)
		if age := federationtest.At(n).Sub(b.Seen); err != nil || b.Name != "ada" || age < 0 || age >= time.Minute {
			t.Errorf("Binding after step %d = %+v, %v", n, b, err)
		}
	}
}

func (s suite) testBindingOfVouched(t *testing.T) {
	record := s.open(t)
	offer := federationtest.Vouch(federationtest.Offer(1, ada, bob), "original")
	offer.For, offer.Arrival.Name = cleo, "cleo"
	mustAppend(t, record, federationtest.File(offer, federation.View{}))
	want := federation.Binding{DID: cleo, Network: "airc", Link: "airc", Name: "cleo", First: "cleo", Seen: federationtest.At(1)}
	got, err := record.BindingByHash(t.Context(), cleo.Hash())
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("BindingByHash: %v (-want +got):\n%s", err, d)
	}
	if _, err := record.Binding(t.Context(), ada); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Binding of the signer: %v, want ErrNotFound", err)
	}
	claim := federationtest.Offer(2, ada, bob) // the DID that a signed step claims to stand for is only its signer's claim
	claim.For = cleo
	mustAppend(t, record, federationtest.File(claim, federation.View{}))
	if b, err := record.Binding(t.Context(), cleo); err != nil || b.Name != "cleo" {
		t.Errorf("Binding after a claim = %+v, %v, want that of the vouched step", b, err)
	}
}

func (s suite) testNameless(t *testing.T) {
	record := s.open(t)
	mustAppend(t, record, federationtest.File(federationtest.Vouch(federationtest.Offer(1, ada, bob), "original"), federation.View{}))
	if _, err := record.Binding(t.Context(), ada); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Binding: %v, want ErrNotFound", err)
	}
	if owner, err := record.KeyOwner(t.Context(), federation.KeyID(federationtest.Key(ada))); err != nil || owner != ada {
		t.Errorf("KeyOwner = %s, %v, want %s", owner, err, ada)
	}
}

func (s suite) testKeyOwner(t *testing.T) {
	record := s.open(t)
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	second := federationtest.Offer(2, cleo, bob)
	second.Signature.Key = federationtest.Key(ada)
	mustAppend(t, record, federationtest.File(second, federation.View{}))
	if owner, err := record.KeyOwner(t.Context(), federation.KeyID(federationtest.Key(ada))); err != nil || owner != ada {
		t.Errorf("KeyOwner = %s, %v, want %s", owner, err, ada)
	}
}

func (s suite) testKeptKey(t *testing.T) {
	record := s.open(t)
	id := federation.KeyID(federationtest.Key(ada))
	before := federationtest.Vouch(federationtest.Offer(1, ada, bob), "original") // from a gateway that did not record the owner of the key
	before.Signature.Key = federationtest.Key(ada)
	mustAppend(t, record, federationtest.File(before, federation.View{}))
	for n, filing := range []federation.Filing{federationtest.File(federationtest.Offer(2, cleo, bob), federation.View{}), federationtest.File(federationtest.Offer(3, cleo, bob), federation.View{})} {
		filing.Kept = []federation.KeptKey{{ID: id, Owner: cleo}, {ID: federation.KeyID(federationtest.Key(bob)), Owner: bob}}
		mustAppend(t, record, filing)
		if owner, err := record.KeyOwner(t.Context(), id); err != nil || owner != cleo {
			t.Errorf("KeyOwner after filing %d = %s, %v, want %s", n+1, owner, err, cleo)
		}
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(4, ada, bob), federation.View{}))
	if owner, err := record.KeyOwner(t.Context(), id); err != nil || owner != cleo {
		t.Errorf("KeyOwner after a step of the key = %s, %v, want %s", owner, err, cleo)
	}
}

func (s suite) testHash(t *testing.T) {
	record := s.open(t)
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	mustAppend(t, record, federationtest.File(federationtest.Offer(2, cleo, bob), federation.View{}))
	hash := ada.Hash()
	for _, prefix := range []string{"", hash[:1], hash[:9], hash + "a", bob.Hash(), hash[1:], "%%%%%%%%%%", "__________"} {
		if b, err := record.BindingByHash(t.Context(), prefix); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("BindingByHash(%q) = %s, %v, want ErrNotFound", prefix, b.DID, err)
		}
	}
}
