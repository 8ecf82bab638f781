package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// The document is compared with the sessions: its earlier version may never have been read here.
func TestEndUnlistedEndsSessionsOfKeysOutsideTheDocument(t *testing.T) {
	record, now := storetest.Open(t), time.Now()
	const alice, bob = "did:web:alice.example", "did:web:bob.example"
	start := func(sessions ...federation.Session) {
		t.Helper()
		for _, s := range sessions {
			s.Generation, s.Expires, s.Created, s.Used, s.Began = 1, now.Add(time.Hour), now, now, federation.BeganDID
			if err := record.StartSession(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(did federation.DID, listed []string, want ...string) {
		t.Helper()
		gone, err := record.EndUnlisted(t.Context(), did, listed, now)
		if diff := cmp.Diff(want, gone); diff != "" || err != nil {
			t.Errorf("EndUnlisted of %s, which lists %v: %v (-want +got):\n%s", did, listed, err, diff)
		}
	}
	hook := federation.Webhook{ID: federationtest.ID(1), DID: alice, URL: "https://alice.example/hook", Since: now, Key: "hook"}
	if err := record.AddWebhook(t.Context(), hook, 5); err != nil {
		t.Fatal(err)
	}
	start(
		federation.Session{ID: "kept", Participant: alice, Key: "other"},
		federation.Session{ID: "of an unknown key", Participant: alice},
		federation.Session{ID: "of another DID", Participant: bob, Key: "k"},
	)
	end(alice, []string{"other", "hook"})
	if _, err := record.Session(t.Context(), "of an unknown key", now); err != nil {
		t.Errorf("a session of an unknown key, before a key left: %v", err)
	}
	start(federation.Session{ID: "removed", Participant: alice, Key: "k"})
	end(alice, []string{"other", "new"}, "hook", "k")
	end(alice, []string{"other", "new"})
	for id, want := range map[string]error{
		"removed": federation.ErrSessionEnded, "of an unknown key": federation.ErrSessionEnded, "kept": nil, "of another DID": nil,
	} {
		if _, err := record.Session(t.Context(), id, now.Add(time.Second)); !errors.Is(err, want) {
			t.Errorf("session %q: %v, want %v", id, err, want)
		}
	}
	due, err := record.Rows().Take(t.Context(), federation.ToWebhook, now, now.Add(time.Minute), 5)
	if err != nil || len(due) != 1 || due[0].Name != federation.WebhookName(hook.ID) {
		t.Errorf("Take = %+v, %v", due, err)
	}
	if hook, err := record.Webhook(t.Context(), hook.ID); err != nil || !hook.Over(now) {
		t.Errorf("the webhook is %+v, %v", hook, err)
	}
	end(bob, nil, "k")
}
