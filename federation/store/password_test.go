package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func (s suite) testPasswords(t *testing.T) {
	record := s.open(t)
	if _, err := record.Password(t.Context(), ada); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Password of a DID without one: %v", err)
	}
	for n := range 2 {
		want := federation.Password{
			DID: ada, Salt: []byte{1, byte(n)}, Iterations: 4096 + n, StoredKey: []byte{2, byte(n)}, ServerKey: []byte{3, byte(n)}, Since: federationtest.At(n),
		}
		if err := record.KeepPassword(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		got, err := record.Password(t.Context(), ada)
		if d := diff(want, got); d != "" || err != nil {
			t.Errorf("Password: %v (-want +got):\n%s", err, d)
		}
	}
	for range 2 {
		if err := record.DropPassword(t.Context(), ada); err != nil {
			t.Fatal(err)
		}
		if _, err := record.Password(t.Context(), ada); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("Password after its deletion: %v", err)
		}
	}
}
