package airc_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestIdentityIsFoundByHandleAndDID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01, func(a *bridgetest.Agent) {
		a.Capabilities = map[string]any{"payloads": []string{"task:request"}, "maxPayloadSize": 4096}
		a.Metadata = map[string]any{"displayName": "Scout"}
	})
	own := string(signingKey(0x01).DID)
	key := "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w"
	for _, name := range []string{"scout_7", scout.DID, own} {
		status, answer, err := scout.Identity(t.Context(), name)
		if err != nil || status != http.StatusOK {
			t.Fatal(name, status, answer, err)
		}
		want := map[string]any{
			"handle": "scout_7", "aliases": []any{}, "domain": "gw.example", "did": scout.DID, "alsoKnownAs": []any{own},
			"keys": []any{map[string]any{
				"kid": "k_34750f98bd59fcfc", "publicKey": key, "status": "active", "createdAt": answer["registeredAt"],
				"expiresAt": nil, "revokedAt": nil,
			}},
			"publicKey": key, "capabilities": map[string]any{"payloads": []any{"task:request"}, "maxPayloadSize": 4096.0},
			"metadata": map[string]any{"displayName": "Scout"},
		}
		if diff := cmp.Diff(want, answer, cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "registeredAt" })); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestIdentityOfAnotherNetworkIsFoundAfterAStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	handle, alias := wire.Handle(alice.DID), wire.Alias(alice.DID, "alice")
	names := []string{handle, alias, string(alice.DID)}
	for _, name := range append(names, "nobody", "no-handle", "system", "did:plc:nobody", "plc_ewvi7nxzyoun6zhxrhs64oiz") {
		if status, answer, err := scout.Identity(t.Context(), name); err != nil || status != 404 || answer["error"] != "identity_not_found" {
			t.Errorf("%s, before: %d %v %v", name, status, answer, err)
		}
	}
	w.offer(t, alice, scout.DID)
	key := "0EqyMnQrtKs6E2i9RhXk5tAiSrcaAWuvhSCjMsl3hzc"
	want := map[string]any{
		"handle": handle, "aliases": []any{alias}, "domain": "gw.example", "did": string(alice.DID), "alsoKnownAs": []any{},
		"keys": []any{map[string]any{
			"kid": "k_10ba682c8ad13513", "publicKey": key, "status": "active", "createdAt": nil, "expiresAt": nil, "revokedAt": nil,
		}},
		"publicKey": key, "registeredAt": nil, "capabilities": map[string]any{}, "metadata": map[string]any{},
	}
	for _, name := range names {
		status, answer, err := scout.Identity(t.Context(), name)
		if err != nil || status != http.StatusOK {
			t.Fatal(name, status, answer, err)
		}
		if diff := cmp.Diff(want, answer); diff != "" {
			t.Error(name, diff)
		}
	}
	if status, _, _ := scout.Identity(t.Context(), "bob_"+alice.DID.Hash()[:10]); status != 404 {
		t.Error("an alias with another name was found")
	}
}
