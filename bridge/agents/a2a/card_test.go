package a2a_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// signedCard is a card as a client verifies it.
type signedCard struct {
	members map[string]any
	header  map[string]string
}

// verify returns the card at a path, whose signature is that of a key that the gateway lists.
func verify(t *testing.T, w *world, path string) signedCard {
	t.Helper()
	got := w.get(t, path+"/.well-known/agent-card.json", "A2A-Version", "1.0")
	if got.Status != http.StatusOK {
		t.Fatalf("the card at %q is answered %d %s", path, got.Status, got.Text)
	}
	var card signedCard
	if err := json.Unmarshal([]byte(got.Text), &card.members); err != nil {
		t.Fatal(err)
	}
	signatures, err := json.Marshal(card.members["signatures"])
	if err != nil {
		t.Fatal(err)
	}
	var given []struct{ Protected, Signature string }
	if err := json.Unmarshal(signatures, &given); err != nil || len(given) != 1 {
		t.Fatalf("signatures %s, %v", signatures, err)
	}
	delete(card.members, "signatures")
	rest, err := json.Marshal(card.members)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jcs.Transform(rest)
	if err != nil {
		t.Fatal(err)
	}
	header := decode(t, given[0].Protected)
	if err := json.Unmarshal(header, &card.header); err != nil {
		t.Fatal(err)
	}
	var set struct {
		Keys []struct{ Kty, Crv, X, Kid, Alg, Use string }
	}
	if err := json.Unmarshal([]byte(w.get(t, strings.TrimPrefix(card.header["jku"], w.url)).Text), &set); err != nil {
		t.Fatal(err)
	}
	for _, key := range set.Keys {
		if key.Kid == card.header["kid"] && key.Kty == "OKP" && key.Crv == "Ed25519" &&
			ed25519.Verify(decode(t, key.X), []byte(given[0].Protected+"."+base64.RawURLEncoding.EncodeToString(canonical)), decode(t, given[0].Signature)) {
			return card
		}
	}
	t.Fatalf("no key of %+v verifies the card at %q", set, path)
	return card
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestCardIsSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob := w.login(t, "bob").declares(t, "cite", "translate")
	card := verify(t, w, bob.path())
	server := bridgetest.SeededKey("server").Public
	if diff := cmp.Diff(map[string]string{"alg": "EdDSA", "jku": w.url + "/.well-known/jwks.json", "kid": federation.KeyID(server), "typ": "JOSE"}, card.header); diff != "" {
		t.Errorf("the protected header (-want +got):\n%s", diff)
	}
	skill := func(name string) map[string]any {
		return map[string]any{"id": name, "name": name, "tags": []any{name}, "description": "The agent declared the capability " + name + "."}
	}
	want := map[string]any{
		"name": string(bob.did), "version": "1.2.3", "provider": map[string]any{"organization": "gw.example", "url": w.url},
		"description": card.members["description"],
		"supportedInterfaces": []any{
			map[string]any{"url": w.url + bob.path(), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
			map[string]any{"url": w.url + bob.path() + "/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
		},
		"capabilities":      map[string]any{"streaming": true, "pushNotifications": true},
		"defaultInputModes": []any{"text/plain", "application/json"}, "defaultOutputModes": []any{"text/plain", "application/json"},
		"skills": []any{skill("cite"), skill("translate")},
		"securitySchemes": map[string]any{
			"did": map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}},
			"oauth": map[string]any{"oauth2SecurityScheme": map[string]any{"flows": map[string]any{"clientCredentials": map[string]any{
				"tokenUrl": w.url + "/oauth/token", "scopes": map[string]any{"handoffs": "offer and follow"},
			}}}},
		},
	}
	if diff := cmp.Diff(want, card.members); diff != "" {
		t.Errorf("the card (-want +got):\n%s", diff)
	}
	if text, _ := card.members["description"].(string); !strings.Contains(text, "days") || !strings.Contains(text, string(bob.did)) {
		t.Errorf("the description is %q", text)
	}
}

func TestCardHasNoEmptyMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.login(t, "bob").declares(t, "cite")
	for _, path := range []string{"", w.login(t, "bob").path(), w.login(t, "scout").path()} {
		var walk func(at string, value any)
		walk = func(at string, value any) {
			switch v := value.(type) {
			case map[string]any:
				if len(v) == 0 {
					t.Errorf("%s of the card at %q is empty", at, path)
				}
				for name, member := range v {
					walk(at+"."+name, member)
				}
			case []any:
				if len(v) == 0 {
					t.Errorf("%s of the card at %q is empty", at, path)
				}
				for _, member := range v {
					walk(at, member)
				}
			default:
				if v == nil || v == "" || v == false || v == 0.0 {
					t.Errorf("%s of the card at %q is %v", at, path, v)
				}
			}
		}
		walk("", verify(t, w, path).members)
	}
}

func TestCardOfARegistryAgentHasItsHandleAndOneSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	card := verify(t, w, w.login(t, "scout").path())
	want := []any{map[string]any{"id": "handoff", "name": "handoff", "description": "Takes offers of work.", "tags": []any{"handoff"}}}
	if diff := cmp.Diff(want, card.members["skills"]); diff != "" || card.members["name"] != "scout" {
		t.Errorf("the name is %v, the skills (-want +got):\n%s", card.members["name"], diff)
	}
	gateway := verify(t, w, "")
	interfaces, _ := gateway.members["supportedInterfaces"].([]any)
	if first, _ := interfaces[0].(map[string]any); gateway.members["name"] != "gw.example" || first["url"] != w.url+"/a2a" {
		t.Errorf("the card of the gateway is %v", gateway.members)
	}
}

func TestCardIsCached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob := w.login(t, "bob").declares(t, "cite")
	for _, path := range []string{"/.well-known/agent-card.json", bob.path() + "/.well-known/agent-card.json", "/.well-known/jwks.json"} {
		first := w.get(t, path)
		tag := first.Header.Get("ETag")
		if tag == "" || first.Header.Get("Cache-Control") != "public, max-age=300" || first.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s has the header %v", path, first.Header)
		}
		if again := w.get(t, path, "If-None-Match", tag); again.Status != http.StatusNotModified {
			t.Errorf("%s again is answered %d", path, again.Status)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, w.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		head, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := head.Body.Close(); err != nil || head.StatusCode != http.StatusOK || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s is answered %d with %v, %v", path, head.StatusCode, head.Header, err)
		}
	}
	before := w.get(t, bob.path()+"/.well-known/agent-card.json").Header.Get("ETag")
	bob.declares(t, "translate")
	if after := w.get(t, bob.path()+"/.well-known/agent-card.json"); after.Header.Get("ETag") == before {
		t.Error("another card has the same tag")
	}
}

func TestCardListsARotatedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := bridgetest.SeededKey("before").Public
	w.keys = append(w.keys, old)
	if got := w.get(t, "/.well-known/jwks.json").Text; !strings.Contains(got, federation.KeyID(old)) || !strings.Contains(got, federation.KeyID(w.keys[0])) {
		t.Errorf("the keys are %s", got)
	}
}
