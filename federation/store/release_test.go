package store_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func (s suite) testReleaseHandle(t *testing.T) {
	record := s.open(t)
	if err := record.ReleaseHandle(t.Context(), "scout", federationtest.At(1)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("release an unknown handle: %v, want ErrNotFound", err)
	}
	before := federationtest.NewAgent("scout")
	before.Capabilities, before.Account = json.RawMessage(`{"skills":["go"]}`), agents.Account{Issuer: "https://login.example", Subject: "42"}
	if err := record.AddAgent(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	session := federation.Session{ID: "s1", Participant: "scout", Expires: federationtest.At(9000)}
	if err := record.StartSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	decide(t, record, "accept", "ada", "scout", federationtest.At(2))
	post(t, record, agents.Posting{Message: federationtest.Message(3, "ada", "scout")})
	hook := federation.Webhook{ID: federationtest.ID(9), DID: before.DID, Participant: "scout", URL: "https://hook.example", Since: federationtest.At(3)}
	if err := record.AddWebhook(t.Context(), hook, 10); err != nil {
		t.Fatal(err)
	}

	for range 2 { // again changes nothing
		if err := record.ReleaseHandle(t.Context(), "scout", federationtest.At(4)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := record.Agent(t.Context(), "scout")
	if err != nil || !got.Released.Equal(federationtest.At(4)) || len(got.Keys) != 0 || got.OwnDID != before.DID || got.DID != before.DID {
		t.Errorf("released: %+v, %v", got, err)
	}
	if _, err := record.AgentOf(t.Context(), before.OwnDID); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("the DID of its key: %v, want ErrNotFound", err)
	}
	if _, err := record.AdvanceSession(t.Context(), "s1", 0, federationtest.At(5), federationtest.At(9000)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("its session: %v, want ErrNotFound", err)
	}
	if _, err := record.Webhook(t.Context(), hook.ID); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("its webhook: %v, want ErrNotFound", err)
	}
	if able, err := record.Capable(t.Context(), []string{"go"}); err != nil || len(able) != 0 {
		t.Errorf("it is offered work by its skills: %v, %v", able, err)
	}
	post(t, record, agents.Posting{Message: federationtest.Message(6, "ada", "scout")})

	after := federationtest.NewAgent("scout")
	after.Keys = []agents.Key{{ID: "k_new", DID: "did:key:zNew", Public: federationtest.Key("new"), Created: federationtest.At(7)}}
	after.OwnDID, after.Registered, after.Capabilities = "did:key:zNew", federationtest.At(7), json.RawMessage(`{"skills":["sql"]}`)
	if err := record.AddAgent(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	if got, err = record.Agent(t.Context(), "scout"); err != nil {
		t.Fatal(err)
	}
	if d := diff(after, got); d != "" {
		t.Errorf("registered again (-want +got):\n%s", d)
	}
	if err := record.AddAgent(t.Context(), after); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("a third registration: %v, want ErrTaken", err)
	}
	if c := edgeOf(t, record, "ada", "scout"); c.State != agents.ConsentAccepted {
		t.Errorf("consent is %s, want accepted", c.State)
	}
	inbox, _, err := record.Inbox(t.Context(), "scout", "", 10)
	if err != nil || len(inbox) != 2 || inbox[0].ID != "message-3" || inbox[1].ID != "message-6" {
		t.Errorf("its inbox has %+v, %v", inbox, err)
	}
	if able, err := record.Capable(t.Context(), []string{"sql"}); err != nil || len(able) != 1 {
		t.Errorf("by its new skills: %v, %v", able, err)
	}
}
