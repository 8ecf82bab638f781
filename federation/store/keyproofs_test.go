package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// namedAgent returns an agent that named a key without a proof, and the did:key of that key.
func namedAgent(handle string) (agents.Agent, federation.DID) {
	a := federationtest.NewAgent(handle)
	did := a.OwnDID
	a.Keys[0].DID, a.OwnDID = "", a.DID
	return a, did
}

func add(t *testing.T, record *registry.Record, a agents.Agent) {
	t.Helper()
	if err := record.AddAgent(t.Context(), a); err != nil {
		t.Fatalf("AddAgent: %v", err)
	}
}

func prove(t *testing.T, record *registry.Record, handle, kid string, did federation.DID, n int) agents.Agent {
	t.Helper()
	a, err := record.ProveKey(t.Context(), handle, kid, did, federationtest.At(n))
	if err != nil {
		t.Fatalf("ProveKey: %v", err)
	}
	return a
}

// ownerOf returns the handle of the agent with a DID, "" if none has it.
func ownerOf(t *testing.T, record *registry.Record, did federation.DID) string {
	t.Helper()
	a, err := record.AgentOf(t.Context(), did)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		t.Fatalf("AgentOf: %v", err)
	}
	return a.Handle
}

func (s suite) testNamedKey(t *testing.T) {
	record := s.open(t)
	a, did := namedAgent("mallory")
	a.Keys[0].Expires = federationtest.At(5)
	add(t, record, a)
	if got, err := record.Agent(t.Context(), "mallory"); err != nil || diff(a, got) != "" || got.Is(did) || got.Is("") {
		t.Errorf("Agent = %+v, %v, want it as it was added", got, err)
	}
	for _, did := range []federation.DID{did, ""} {
		if handle := ownerOf(t, record, did); handle != "" {
			t.Errorf("AgentOf(%q) = %s, want nobody", did, handle)
		}
	}
	if owner, err := record.KeyOwner(t.Context(), federation.KeyID(a.Keys[0].Public)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("KeyOwner = %s, %v, want ErrNotFound", owner, err)
	}
	if _, err := record.RotateKey(t.Context(), "mallory", "", agentKey(3), federationtest.At(3), federationtest.At(3)); err != nil {
		t.Fatalf("RotateKey: %v", err)
	}
	if _, err := record.RevokeKey(t.Context(), "mallory", "key-3", "k_mallory", "", federationtest.At(4)); err != nil {
		t.Fatalf("RevokeKey: %v", err)
	}
	for _, did := range []federation.DID{did, ""} {
		if history, err := record.History(t.Context(), did); err != nil || len(history) != 0 {
			t.Errorf("History(%q) = %+v, %v, want none", did, history, err)
		}
	}
}

func (s suite) testProveKey(t *testing.T) {
	record := s.open(t)
	a, did := namedAgent("scout")
	a.Keys[0].Expires = federationtest.At(50)
	add(t, record, a)
	if handle := ownerOf(t, record, did); handle != "" { // it may be remembered
		t.Fatalf("AgentOf = %s before the proof", handle)
	}
	want := a
	want.Keys = []agents.Key{a.Keys[0]}
	want.Keys[0].DID, want.OwnDID = did, did
	if got := prove(t, record, "scout", "k_scout", did, 10); diff(want, got) != "" {
		t.Errorf("ProveKey (-want +got):\n%s", diff(want, got))
	}
	if got, err := record.AgentOf(t.Context(), did); err != nil || diff(want, got) != "" {
		t.Errorf("AgentOf = %+v, %v", got, err)
	}
	if again := prove(t, record, "scout", "k_scout", did, 11); diff(want, again) != "" {
		t.Errorf("proving again (-want +got):\n%s", diff(want, again))
	}
	if owner, err := record.KeyOwner(t.Context(), federation.KeyID(a.Keys[0].Public)); err != nil || owner != did {
		t.Errorf("KeyOwner = %s, %v, want %s", owner, err, did)
	}
	if stands(t, record, want.Keys[0], 49) == federation.KeyEnded || stands(t, record, want.Keys[0], 50) != federation.KeyEnded {
		t.Error("the history of the DID lacks the end of the key")
	}
	if _, err := record.ProveKey(t.Context(), "scout", "k_other", did, federationtest.At(12)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("ProveKey of a key that is not there: %v, want ErrNotFound", err)
	}
	if _, err := record.ProveKey(t.Context(), "nobody", "k_scout", did, federationtest.At(12)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("ProveKey of nobody: %v, want ErrNotFound", err)
	}
}

func (s suite) testOneOwner(t *testing.T) {
	record := s.open(t)
	bob, mallory := federationtest.NewAgent("bob"), federationtest.NewAgent("mallory")
	add(t, record, bob)
	mallory.OwnDID, mallory.Keys[0].DID, mallory.Keys[0].Public = bob.OwnDID, bob.OwnDID, bob.Keys[0].Public
	add(t, record, mallory)
	second, err := record.Agent(t.Context(), "mallory")
	if err != nil || second.Keys[0].Proved() || second.OwnDID != second.DID {
		t.Errorf("the second agent with the key is %+v, %v", second, err)
	}
	if after := prove(t, record, "mallory", "k_mallory", bob.OwnDID, 5); after.Keys[0].Proved() {
		t.Errorf("ProveKey reassigned the DID: %+v", after)
	}
	key := agentKey(6)
	key.DID, key.Public = bob.OwnDID, federationtest.Key("a key that differs")
	after, err := record.RotateKey(t.Context(), "mallory", "k_mallory", key, federationtest.At(6), federationtest.At(60))
	if err != nil || after.Is(bob.OwnDID) || after.OwnDID != after.DID {
		t.Errorf("RotateKey reassigned the DID: %+v, %v", after, err)
	}
	kept := agentKey(7)
	kept.DID = bob.DID
	if after, err = record.RotateKey(t.Context(), "mallory", key.ID, kept, federationtest.At(7), federationtest.At(60)); err != nil || after.Is(bob.DID) {
		t.Errorf("RotateKey reassigned the kept DID: %+v, %v", after, err)
	}
	for _, did := range []federation.DID{bob.DID, bob.OwnDID} {
		if handle := ownerOf(t, record, did); handle != "bob" {
			t.Errorf("%s is of %q, want bob", did, handle)
		}
	}
}

func (s suite) testRotationElsewhere(t *testing.T) {
	for name, proved := range map[string]func(*testing.T, *registry.Record, federation.DID){
		"by a session": func(t *testing.T, record *registry.Record, did federation.DID) {
			t.Helper()
			session := federation.Session{ID: "one", Participant: string(did), Generation: 1, Expires: federationtest.At(500)}
			if err := record.StartSession(t.Context(), session); err != nil {
				t.Fatal(err)
			}
		},
		"by a signed step": func(t *testing.T, record *registry.Record, did federation.DID) {
			t.Helper()
			if _, err := record.Append(t.Context(), federationtest.File(federationtest.Offer(1, did, bob), federation.View{})); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			record := s.open(t)
			add(t, record, federationtest.NewAgent("mallory"))
			proved(t, record, agentKey(10).DID)
			after, err := record.RotateKey(t.Context(), "mallory", "k_mallory", agentKey(10), federationtest.At(10), federationtest.At(10).Add(time.Minute))
			if err != nil || after.Is(agentKey(10).DID) || after.OwnDID != after.DID {
				t.Errorf("RotateKey = %+v, %v, want the key without its DID", after, err)
			}
			if after = prove(t, record, "mallory", "key-10", agentKey(10).DID, 11); !after.Is(agentKey(10).DID) {
				t.Errorf("a proof for the handle gives no DID: %+v", after)
			}
		})
	}
}

func (s suite) testUnproved(t *testing.T) {
	record := s.open(t)
	add(t, record, federationtest.NewAgent("proved"))
	for _, handle := range []string{"zoe", "amy", "gone"} {
		a, _ := namedAgent(handle)
		if handle == "gone" {
			a.Keys[0].Expires = federationtest.At(5)
		}
		add(t, record, a)
	}
	handles, total, err := record.Unproved(t.Context(), federationtest.At(10), 1)
	if err != nil || total != 2 || len(handles) != 1 || handles[0] != "amy" {
		t.Errorf("Unproved = %q, %d, %v, want amy of two", handles, total, err)
	}
}
