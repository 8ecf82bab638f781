package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func (s suite) testCapable(t *testing.T) {
	record := s.open(t)
	known := map[string]agents.Agent{}
	for _, agent := range []struct{ handle, capabilities string }{
		{"judge", `{"skills": ["go", "review", "go"], "payloads": ["rust"]}`},
		{"scout", `{"skills": ["web-search", "go"]}`},
		{"idler", `{"skills": []}`},
		{"mute", `{}`},
		{"plain", ""},
	} {
		a := federationtest.NewAgent(agent.handle)
		if agent.capabilities != "" {
			a.Capabilities = json.RawMessage(agent.capabilities)
		}
		if err := record.AddAgent(t.Context(), a); err != nil {
			t.Fatalf("AddAgent: %v", err)
		}
		known[a.Handle] = a
	}
	for _, tt := range []struct {
		name string
		caps []string
		want []string
	}{
		{"one skill", []string{"review"}, []string{"judge"}},
		{"a skill of two", []string{"go"}, []string{"judge", "scout"}},
		{"two skills", []string{"web-search", "go"}, []string{"scout"}},
		{"a skill twice", []string{"review", "review"}, []string{"judge"}},
		{"two skills that nobody has together", []string{"review", "web-search"}, nil},
		{"one that nobody has", []string{"go", "rust"}, nil},
		{"another spelling", []string{"Go"}, nil},
		{"no skills", nil, nil},
	} {
		got, err := record.Capable(t.Context(), tt.caps)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var want []agents.Agent
		for _, handle := range tt.want {
			want = append(want, known[handle])
		}
		if d := diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// start begins a family of refresh tokens that ends at [At] 100.
func start(t *testing.T, record *registry.Record, id string) {
	t.Helper()
	session := federation.Session{ID: id, Participant: "scout", Generation: 1, Expires: federationtest.At(100)}
	if err := record.StartSession(t.Context(), session); err != nil {
		t.Fatalf("StartSession: %v", err)
	}
}

func (s suite) testSession(t *testing.T) {
	record := s.open(t)
	start(t, record, "one")
	start(t, record, "two")
	for _, tt := range []struct {
		participant string
		at          int
		want        bool
	}{{"scout", 99, true}, {"scout", 100, false}, {"other", 50, false}} {
		if has, err := record.HasSession(t.Context(), tt.participant, federationtest.At(tt.at)); has != tt.want || err != nil {
			t.Errorf("HasSession of %s at %d: %v, %v, want %v", tt.participant, tt.at, has, err, tt.want)
		}
	}
	ada := federation.Session{ID: "three", Participant: string(ada), Expires: federationtest.At(100)}
	if seen, err := record.Seen(t.Context(), federation.DID(ada.Participant)); seen || err != nil {
		t.Errorf("Seen before a login: %v, %v", seen, err)
	}
	if err := record.StartSession(t.Context(), ada); err != nil {
		t.Fatalf("StartSession: %v", err)
	}
	if err := record.EndSession(t.Context(), []string{ada.Participant}, ada.ID, federationtest.At(50)); err != nil {
		t.Fatalf("EndSession: %v", err)
	}
	if seen, err := record.Seen(t.Context(), federation.DID(ada.Participant)); !seen || err != nil {
		t.Errorf("Seen after a session that ended: %v, %v", seen, err)
	}
	for generation := range uint64(2) {
		want := federation.Session{ID: "one", Participant: "scout", Generation: generation + 2, Expires: federationtest.At(200), Used: federationtest.At(50)}
		got, err := record.AdvanceSession(t.Context(), "one", generation+1, federationtest.At(50), federationtest.At(200))
		if err != nil || diff(want, got) != "" {
			t.Errorf("AdvanceSession = %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := record.AdvanceSession(t.Context(), "one", 1, federationtest.At(51), federationtest.At(200)); !errors.Is(err, federation.ErrTokenUsed) {
		t.Errorf("AdvanceSession with a spent token: %v, want ErrSpent", err)
	}
	for _, generation := range []uint64{1, 3} {
		if _, err := record.AdvanceSession(t.Context(), "one", generation, federationtest.At(52), federationtest.At(200)); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("AdvanceSession of the family that this ended: %v, want ErrNotFound", err)
		}
	}
	if _, err := record.AdvanceSession(t.Context(), "two", 1, federationtest.At(53), federationtest.At(200)); err != nil {
		t.Errorf("AdvanceSession of another family: %v", err)
	}
	if _, err := record.AdvanceSession(t.Context(), "three", 1, federationtest.At(53), federationtest.At(200)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("AdvanceSession of no family: %v, want ErrNotFound", err)
	}
}

func (s suite) testSessionRace(t *testing.T) {
	record := s.open(t)
	start(t, record, "one")
	var won, spent int
	for _, err := range race(t.Context(), func(ctx context.Context, _ int) error {
		_, err := record.AdvanceSession(ctx, "one", 1, federationtest.At(50), federationtest.At(200))
		return err
	}) {
		switch {
		case err == nil:
			won++
		case errors.Is(err, federation.ErrTokenUsed):
			spent++
		case !errors.Is(err, federation.ErrNotFound):
			t.Errorf("AdvanceSession: %v", err)
		}
	}
	if won != 1 || spent != 1 {
		t.Errorf("%d uses succeed and %d are told of reuse, want one each", won, spent)
	}
}

func (s suite) testSessionExpiry(t *testing.T) {
	record := s.open(t)
	start(t, record, "one")
	start(t, record, "two")
	if _, err := record.AdvanceSession(t.Context(), "one", 1, federationtest.At(99), federationtest.At(300)); err != nil {
		t.Errorf("AdvanceSession in time: %v", err)
	}
	if _, err := record.AdvanceSession(t.Context(), "two", 1, federationtest.At(100), federationtest.At(300)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("AdvanceSession of a family that is over: %v, want ErrNotFound", err)
	}
	if _, err := record.AdvanceSession(t.Context(), "one", 2, federationtest.At(299), federationtest.At(400)); err != nil {
		t.Errorf("AdvanceSession of a family that was prolonged: %v", err)
	}
}

func (s suite) testLateAgent(t *testing.T) {
	record := s.open(t)
	scout := federationtest.NewAgent("scout")
	for _, did := range []federation.DID{scout.DID, scout.OwnDID} {
		if _, err := record.AgentOf(t.Context(), did); !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("AgentOf before: %v, want ErrNotFound", err)
		}
	}
	if err := record.AddAgent(t.Context(), scout); err != nil {
		t.Fatalf("AddAgent: %v", err)
	}
	for range 2 {
		for _, did := range []federation.DID{scout.DID, scout.OwnDID} {
			found, err := record.AgentOf(t.Context(), did)
			if err != nil || diff(scout, found) != "" {
				t.Errorf("AgentOf after = %+v, %v", found, err)
			}
		}
	}
}
