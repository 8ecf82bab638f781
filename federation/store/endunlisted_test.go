package store_test

import (
	"errors"
	"testing"
	"time"

	"baton/federation"
	"baton/federation/store/storetest"
)

func TestEndKeysEndsSessionsOfRemovedKeys(t *testing.T) {
	record, now := storetest.Open(t), time.Now()
	const alice, bob = "did:web:alice.example", "did:web:bob.example"
	for _, s := range []federation.Session{
		{ID: "removed", Participant: alice, Key: "k"},
		{ID: "kept", Participant: alice, Key: "other"},
		{ID: "of another DID", Participant: bob, Key: "k"},
	} {
		s.Generation, s.Expires, s.Created, s.Used, s.Began = 1, now.Add(time.Hour), now, now, federation.BeganDID
		if err := record.StartSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.EndKeys(t.Context(), alice, []string{"k"}, now); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]error{"removed": federation.ErrSessionEnded, "kept": nil, "of another DID": nil} {
		if _, err := record.Session(t.Context(), id, now.Add(time.Second)); !errors.Is(err, want) {
			t.Errorf("session %q: %v, want %v", id, err, want)
		}
	}
}
