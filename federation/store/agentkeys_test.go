package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func agentKey(n int) agents.Key {
	did := federation.DID(fmt.Sprint("did:key:z", n))
	return agents.Key{ID: fmt.Sprint("key-", n), DID: did, Public: federationtest.Key(did), Created: federationtest.At(n)}
}

// hire registers scout, whose first key is k_scout.
func hire(t *testing.T, record *registry.Record) agents.Agent {
	t.Helper()
	scout := federationtest.NewAgent("scout")
	if err := record.AddAgent(t.Context(), scout); err != nil {
		t.Fatalf("AddAgent: %v", err)
	}
	return scout
}

// overlap is the validity of a replaced key here.
const overlap = time.Minute

func rotate(t *testing.T, record *registry.Record, by string, n int) agents.Agent {
	t.Helper()
	a, err := record.RotateKey(t.Context(), "scout", by, agentKey(n), federationtest.At(n), federationtest.At(n).Add(overlap))
	if err != nil {
		t.Fatalf("RotateKey by %s: %v", by, err)
	}
	return a
}

func revoke(t *testing.T, record *registry.Record, by, kid string, n int) agents.Agent {
	t.Helper()
	a, err := record.RevokeKey(t.Context(), "scout", by, kid, "compromised", federationtest.At(n))
	if err != nil {
		t.Fatalf("RevokeKey %s by %s: %v", kid, by, err)
	}
	return a
}

func statuses(a agents.Agent, second int) []string {
	var all []string
	for _, key := range a.Keys {
		all = append(all, key.ID+" "+string(key.Status(federationtest.At(second))))
	}
	return all
}

func (s suite) testShows(t *testing.T) {
	record := s.open(t)
	scout := hire(t, record)
	if _, err := record.AgentOf(t.Context(), scout.DID); err != nil { // it may be remembered
		t.Fatalf("AgentOf: %v", err)
	}
	scout.Shows = agents.Shows{Presence: agents.VisiblePublic, Context: agents.VisibleContacts}
	if err := record.SetShows(t.Context(), "scout", scout.Shows); err != nil {
		t.Fatalf("SetShows: %v", err)
	}
	if got, err := record.AgentOf(t.Context(), scout.DID); err != nil || diff(scout, got) != "" {
		t.Errorf("AgentOf = %+v, %v", got, err)
	}
	if err := record.SetShows(t.Context(), "nobody", scout.Shows); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("SetShows of nobody: %v, want ErrNotFound", err)
	}
}

func stands(t *testing.T, record *registry.Record, key agents.Key, second int) federation.KeyStanding {
	t.Helper()
	history, err := record.History(t.Context(), key.DID)
	if err != nil {
		t.Fatalf("History of %s: %v", key.DID, err)
	}
	return history.Standing(federation.KeyID(key.Public), federationtest.At(second), func(federation.KeyWindow) bool { return true })
}

// A signature made before a key ended is the agent's, and a later one is not, at any time of
// asking.
func (s suite) testEndsOfKeys(t *testing.T) {
	record := s.open(t)
	first := hire(t, record).Keys[0]
	look := func(what string, key agents.Key, ends int) {
		t.Helper()
		if ends > 0 && (stands(t, record, key, ends-1) == federation.KeyEnded || stands(t, record, key, ends) != federation.KeyEnded) {
			t.Errorf("%s: %s does not end at second %d", what, key.ID, ends)
		}
		if ends == 0 && stands(t, record, key, 1000) == federation.KeyEnded {
			t.Errorf("%s: %s has an end", what, key.ID)
		}
	}
	look("at first", first, 0)
	rotate(t, record, first.ID, 10)
	look("replaced", first, 70)
	look("the new one", agentKey(10), 0)
	revoke(t, record, "key-10", "key-10", 20)
	look("revoked", agentKey(10), 20)
	look("active again", first, 0)
	expiring := agentKey(30)
	expiring.Expires = federationtest.At(40)
	if _, err := record.RotateKey(t.Context(), "scout", first.ID, expiring, federationtest.At(30), federationtest.At(90)); err != nil {
		t.Fatal(err)
	}
	look("replaced again", first, 90)
	look("expiring", expiring, 40)
	a := revoke(t, record, expiring.ID, first.ID, 35)
	look("revoked before its end", first, 35)
	if d := diff([]string{"k_scout revoked", "key-10 revoked", "key-30 expired"}, statuses(a, 40)); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
}

func (s suite) testRotateKey(t *testing.T) {
	record := s.open(t)
	before := hire(t, record)
	if _, err := record.AgentOf(t.Context(), before.OwnDID); err != nil { // it may be remembered
		t.Fatalf("AgentOf: %v", err)
	}
	after := rotate(t, record, "k_scout", 10)
	for second, want := range map[int][]string{
		11: {"k_scout pending", "key-10 active"}, 69: {"k_scout pending", "key-10 active"}, 70: {"k_scout revoked", "key-10 active"},
	} {
		if d := diff(want, statuses(after, second)); d != "" {
			t.Errorf("keys at second %d (-want +got):\n%s", second, d)
		}
	}
	if after.OwnDID != agentKey(10).DID || after.Primary(federationtest.At(11)).ID != "key-10" {
		t.Errorf("the agent is %s with %s, want the new key", after.OwnDID, after.Primary(federationtest.At(11)).ID)
	}
	for _, did := range []federation.DID{before.DID, before.OwnDID, agentKey(10).DID} {
		found, err := record.AgentOf(t.Context(), did)
		if err != nil || diff(after, found) != "" || !found.Is(did) {
			t.Errorf("AgentOf(%s) = %+v, %v, want the agent as it is now", did, found, err)
		}
	}
	if owner, err := record.KeyOwner(t.Context(), federation.KeyID(agentKey(10).Public)); err != nil || owner != agentKey(10).DID {
		t.Errorf("the new key is of %s, %v", owner, err)
	}
	for _, tt := range []struct {
		by   string
		key  agents.Key
		want error
	}{
		{"k_scout", agentKey(20), federation.ErrStale},
		{"key-9", agentKey(20), federation.ErrStale},
		{"key-10", agentKey(10), federation.ErrTaken},
		{"key-10", agents.Key{ID: "other", Public: agentKey(10).Public}, federation.ErrTaken},
	} {
		if _, err := record.RotateKey(t.Context(), "scout", tt.by, tt.key, federationtest.At(20), federationtest.At(80)); !errors.Is(err, tt.want) {
			t.Errorf("RotateKey to %s by %s: %v, want %v", tt.key.ID, tt.by, err, tt.want)
		}
	}
	if _, err := record.RotateKey(t.Context(), "nobody", "k", agentKey(20), federationtest.At(20), federationtest.At(80)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("RotateKey of nobody: %v, want ErrNotFound", err)
	}
}

func (s suite) testRevokeKey(t *testing.T) {
	record := s.open(t)
	hire(t, record)
	rotate(t, record, "k_scout", 10)
	if _, err := record.RevokeKey(t.Context(), "scout", "k_scout", "key-10", "", federationtest.At(11)); !errors.Is(err, federation.ErrStale) {
		t.Errorf("RevokeKey on the word of a key that was replaced: %v, want ErrStale", err)
	}
	if _, err := record.RevokeKey(t.Context(), "scout", "key-10", "key-11", "", federationtest.At(11)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("RevokeKey of a key that is not there: %v, want ErrNotFound", err)
	}
	a := revoke(t, record, "key-10", "key-10", 12)
	if d := diff([]string{"k_scout active", "key-10 revoked"}, statuses(a, 100)); d != "" {
		t.Errorf("after the new key was revoked (-want +got):\n%s", d)
	}
	if a.OwnDID != federationtest.NewAgent("scout").OwnDID || a.Keys[1].Reason != "compromised" || !a.Keys[1].Revoked.Equal(federationtest.At(12)) {
		t.Errorf("after the new key was revoked: %+v", a)
	}
	history, err := record.History(t.Context(), agentKey(10).DID)
	all := func(federation.KeyWindow) bool { return true }
	if got := history.Standing(federation.KeyID(agentKey(10).Public), federationtest.At(12), all); err != nil || got != federation.KeyEnded {
		t.Errorf("the standing of the revoked key is %d, %v", got, err)
	}
	rotate(t, record, "k_scout", 20)
	a = revoke(t, record, "key-20", "k_scout", 21)
	if d := diff([]string{"k_scout revoked", "key-10 revoked", "key-20 active"}, statuses(a, 21)); d != "" {
		t.Errorf("after a replaced key was revoked (-want +got):\n%s", d)
	}
	if again := revoke(t, record, "key-20", "k_scout", 25); diff(a, again) != "" {
		t.Errorf("revoking again changed the agent: %+v", again)
	}
}

func (s suite) testRevokeLastKey(t *testing.T) {
	record := s.open(t)
	hire(t, record)
	start(t, record, "one")
	a := revoke(t, record, "k_scout", "k_scout", 12)
	if d := diff([]string{"k_scout revoked"}, statuses(a, 12)); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
	if _, err := record.AdvanceSession(t.Context(), "one", 1, federationtest.At(13), federationtest.At(200)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("AdvanceSession: %v, want ErrNotFound", err)
	}
	if err := record.AddAgent(t.Context(), federationtest.NewAgent("scout")); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("AddAgent: %v, want ErrTaken", err)
	}
	if _, err := record.RotateKey(t.Context(), "scout", "k_scout", agentKey(20), federationtest.At(20), federationtest.At(80)); !errors.Is(err, federation.ErrStale) {
		t.Errorf("RotateKey on the word of a revoked key: %v, want ErrStale", err)
	}
}

func (s suite) testManyKeys(t *testing.T) {
	record := s.open(t)
	hire(t, record)
	by := "k_scout"
	const day = 24 * 3600
	for i := 1; i < agents.MaxKeys; i++ {
		rotate(t, record, by, i*day)
		by = agentKey(i * day).ID
	}
	a := rotate(t, record, by, agents.MaxKeys*day)
	if len(a.Keys) != agents.MaxKeys || a.Keys[0].ID != agentKey(day).ID {
		t.Errorf("%d keys from %s on, want %d without the first", len(a.Keys), a.Keys[0].ID, agents.MaxKeys)
	}
}

func (s suite) testRotationRace(t *testing.T) {
	record := s.open(t)
	hire(t, record)
	const callers = 8
	var done atomic.Int32
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			_, err := record.RotateKey(t.Context(), "scout", "k_scout", agentKey(n+1), federationtest.At(1), federationtest.At(60))
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, federation.ErrStale) {
				t.Errorf("RotateKey: %v, want ErrStale", err)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 {
		t.Errorf("%d rotations were made, want one", done.Load())
	}
}
