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

func begin(t *testing.T, record *registry.Record, id, participant, key string, began federation.Began, change ...func(*federation.Session)) {
	t.Helper()
	s := federation.Session{
		ID: id, Participant: participant, Generation: 1, Began: began, Key: key, Bound: began == federation.BeganBound,
		Created: federationtest.At(10), Used: federationtest.At(10), Expires: federationtest.At(1000), Address: "192.0.2.1",
	}
	for _, each := range change {
		each(&s)
	}
	if err := record.StartSession(t.Context(), s); err != nil {
		t.Fatalf("StartSession %s: %v", id, err)
	}
}

func live(t *testing.T, record *registry.Record, now int, ids ...string) (all []string) {
	t.Helper()
	for _, id := range ids {
		_, err := record.Session(t.Context(), id, federationtest.At(now))
		switch {
		case err == nil:
			all = append(all, id)
		case errors.Is(err, federation.ErrSessionEnded):
			all = append(all, id+" without its key")
		case !errors.Is(err, federation.ErrNotFound):
			t.Errorf("Session %s: %v", id, err)
		}
	}
	return all
}

func (s suite) testSessionsEndWithTheirKey(t *testing.T) {
	record := s.open(t)
	hire(t, record)
	first := federation.KeyID(federationtest.NewAgent("scout").Keys[0].Public)
	second := federation.KeyID(agentKey(20).Public)
	begin(t, record, "challenge", "scout", first, federation.BeganChallenge)
	begin(t, record, "before", "scout", "", federation.BeganRefresh)
	begin(t, record, "keyless", "scout", "", federation.BeganKeyless)
	begin(t, record, "other", "scout", second, federation.BeganBound)
	begin(t, record, "bob", "bob", first, federation.BeganBound)
	all := []string{"challenge", "before", "keyless", "other", "bob"}
	rotate(t, record, "k_scout", 20)
	agent, err := record.Agent(t.Context(), "scout")
	if err != nil {
		t.Fatal(err)
	}
	end := int(agent.Keys[0].Revoked.Sub(federationtest.At(0)).Seconds())
	if d := diff(all, live(t, record, end-1, all...)); d != "" {
		t.Errorf("before the end of the overlap (-want +got):\n%s", d)
	}
	if d := diff([]string{"challenge without its key", "before without its key", "keyless", "other", "bob"}, live(t, record, end, all...)); d != "" {
		t.Errorf("after the end of the overlap (-want +got):\n%s", d)
	}
	revoke(t, record, "key-20", "k_scout", 21)
	if d := diff([]string{"challenge without its key", "before without its key", "keyless without its key", "other", "bob"}, live(t, record, 21, all...)); d != "" {
		t.Errorf("after the revocation (-want +got):\n%s", d)
	}
	revoke(t, record, "key-20", "key-20", 22)
	if d := diff([]string{"challenge without its key", "before without its key", "keyless without its key", "other without its key", "bob"}, live(t, record, 22, all...)); d != "" {
		t.Errorf("after the last key (-want +got):\n%s", d)
	}
	found, err := record.Sessions(t.Context(), []string{"scout"}, federationtest.At(22))
	if err != nil || len(found) != 0 {
		t.Errorf("sessions %v, %v", found, err)
	}
	begins := federation.Session{ID: "late", Participant: "scout", Key: second, Created: federationtest.At(23), Expires: federationtest.At(1000)}
	if _, err := record.StartAgentSession(t.Context(), begins); !errors.Is(err, federation.ErrSessionEnded) {
		t.Errorf("StartAgentSession with a revoked key: %v", err)
	}
}

func (s suite) testSessionOfAKeyThatIsKept(t *testing.T) {
	record := s.open(t)
	hire(t, record)
	begin(t, record, "first", "scout", federation.KeyID(federationtest.NewAgent("scout").Keys[0].Public), federation.BeganBound)
	rotate(t, record, "k_scout", 20)
	revoke(t, record, "key-20", "key-20", 21) // the first key is active again
	if d := diff([]string{"first"}, live(t, record, 900, "first")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func (s suite) testSessionsOfADIDEndWithItsKey(t *testing.T) {
	record := s.open(t)
	bob := federationtest.Person("bob")
	begin(t, record, "one", string(bob), "K1", federation.BeganDID)
	begin(t, record, "two", string(bob), "K2", federation.BeganDID)
	hook := federation.Webhook{ID: federationtest.ID(9001), DID: bob, URL: "https://bob.example/1", Since: federationtest.At(10), Key: "K1"}
	if err := record.AddWebhook(t.Context(), hook, 5); err != nil {
		t.Fatal(err)
	}
	if err := record.Revoke(t.Context(), bob, "K1", federationtest.At(20)); err != nil {
		t.Fatal(err)
	}
	if d := diff([]string{"one without its key", "two"}, live(t, record, 20, "one", "two")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	ended := federation.Session{ID: "three", Participant: string(bob), Key: "K1", Began: federation.BeganDID, Created: federationtest.At(21), Expires: federationtest.At(100)}
	if err := record.StartSession(t.Context(), ended); !errors.Is(err, federation.ErrSessionEnded) {
		t.Errorf("StartSession with a revoked key: %v", err)
	}
	if due := takenWebhooks(t, record, 20, 5); len(due) != 1 || due[0] != federation.WebhookName(hook.ID) {
		t.Errorf("taken are %v", due)
	}
	if hook, err := record.Webhook(t.Context(), hook.ID); err != nil || !hook.Over(federationtest.At(20)) {
		t.Errorf("the webhook is %+v, %v", hook, err)
	}
	hook = federation.Webhook{ID: federationtest.ID(9002), DID: bob, URL: "https://bob.example/2", Since: federationtest.At(20), Session: "one"}
	if err := record.AddWebhook(t.Context(), hook, 5); !errors.Is(err, federation.ErrSessionEnded) {
		t.Errorf("AddWebhook in a session that has ended: %v", err)
	}
}

func (s suite) testEndSessions(t *testing.T) {
	record := s.open(t)
	begin(t, record, "bare", "scout", "K1", federation.BeganChallenge)
	begin(t, record, "bound", "scout", "K1", federation.BeganBound)
	begin(t, record, "signed", "scout", "K1", federation.BeganChallenge)
	begin(t, record, "bob", "bob", "K2", federation.BeganChallenge)
	all := []string{"bare", "bound", "signed", "bob"}
	if err := record.BindSession(t.Context(), "signed"); err != nil {
		t.Fatal(err)
	}
	if n, err := record.EndSessions(t.Context(), []string{"scout"}, "", true, federationtest.At(20)); n != 1 || err != nil {
		t.Errorf("EndSessions that are not bound = %d, %v", n, err)
	}
	if d := diff([]string{"bound", "signed", "bob"}, live(t, record, 20, all...)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := record.EndSession(t.Context(), []string{"bob"}, "bound", federationtest.At(20)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("EndSession of another participant: %v", err)
	}
	if n, err := record.EndSessions(t.Context(), []string{"scout"}, "signed", false, federationtest.At(20)); n != 1 || err != nil {
		t.Errorf("EndSessions but one = %d, %v", n, err)
	}
	later, err := record.ProlongSession(t.Context(), "signed", federationtest.At(30), federationtest.At(2000))
	if err != nil || !later.Expires.Equal(federationtest.At(2000)) || !later.Used.Equal(federationtest.At(30)) {
		t.Errorf("ProlongSession = %+v, %v", later, err)
	}
	if err := record.EndSession(t.Context(), []string{"scout"}, "signed", federationtest.At(31)); err != nil {
		t.Errorf("EndSession: %v", err)
	}
	if _, err := record.ProlongSession(t.Context(), "signed", federationtest.At(32), federationtest.At(2000)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("ProlongSession of one that has ended: %v", err)
	}
}

func (s suite) testRevokeAgent(t *testing.T) {
	record := s.open(t)
	agent := federationtest.NewAgent("scout")
	agent.Recovery = agentKey(30).Public
	first := federation.Session{ID: "one", Participant: "scout", Key: federation.KeyID(agent.Keys[0].Public), Began: federation.BeganBound, Created: federationtest.At(10), Used: federationtest.At(10), Expires: federationtest.At(1000)}
	if err := record.AddAgentSession(t.Context(), agent, first); err != nil {
		t.Fatal(err)
	}
	rotate(t, record, "k_scout", 20)
	if err := record.RevokeAgent(t.Context(), "scout", "", "lost", federationtest.At(21)); err != nil {
		t.Fatal(err)
	}
	after, err := record.Agent(t.Context(), "scout")
	if err != nil || after.Recovery != nil {
		t.Errorf("the agent keeps its recovery key %x, %v", after.Recovery, err)
	}
	for _, key := range after.Keys {
		if key.Status(federationtest.At(21)) != agents.KeyStatusRevoked {
			t.Errorf("key %s is %s", key.ID, key.Status(federationtest.At(21)))
		}
	}
	if d := diff([]string{"one without its key"}, live(t, record, 21, "one")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func (s suite) testManySessions(t *testing.T) {
	record := s.open(t)
	for i := range federation.MaxSessions + 2 {
		begin(t, record, federationtest.ID(i).String(), "scout", "K1", federation.BeganChallenge, func(s *federation.Session) { s.Used = federationtest.At(10).Add(time.Duration(i)) })
	}
	found, err := record.Sessions(t.Context(), []string{"scout"}, federationtest.At(20))
	if err != nil || len(found) != federation.MaxSessions {
		t.Errorf("%d sessions, %v", len(found), err)
	}
	if got := live(t, record, 20, federationtest.ID(0).String(), federationtest.ID(1).String(), federationtest.ID(2).String()); diff([]string{federationtest.ID(2).String()}, got) != "" {
		t.Errorf("of the oldest %q are left", got)
	}
}

func (s suite) testSessionPages(t *testing.T) {
	record := s.open(t)
	for _, id := range []string{"c", "a", "b", "e", "d"} {
		begin(t, record, id, string(ada), "", federation.BeganDID, func(s *federation.Session) {
			if id == "b" {
				s.Expires = federationtest.At(20)
			}
		})
	}
	var got []string
	for after, more := "", true; more; {
		page, err := record.AllSessions(t.Context(), after, 2, federationtest.At(30))
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range page {
			got, after = append(got, session.ID), session.ID
		}
		more = len(page) == 2
	}
	if d := diff([]string{"a", "c", "d", "e"}, got); d != "" {
		t.Errorf("the pages of live sessions (-want +got):\n%s", d)
	}
}
