package main_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// web is a host whose documents have one key each, which a test replaces.
type web struct {
	host

	mu   sync.Mutex
	keys map[string]owner // by the last part of a DID
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{host: newHost(t, func(host) map[string]string { return nil }), keys: map[string]owner{}}
	mux, _ := w.Config.Handler.(*http.ServeMux)
	mux.HandleFunc("GET /{name}/did.json", func(answer http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		name := r.PathValue("name")
		_, _ = fmt.Fprintf(answer, `{"id":%q,"verificationMethod":[{"id":"#now","type":"Multikey","publicKeyMultibase":%q}]}`,
			w.did+":"+name, strings.TrimPrefix(string(w.keys[name].did), "did:key:"))
	})
	return w
}

// replace gives the DID of a name another key, and returns the owner of both.
func (w *web) replace(t *testing.T, name string) owner {
	t.Helper()
	o := newOwner(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[name] = o
	o.did = federation.DID(w.did + ":" + name)
	return o
}

// signIn returns how a DID logs in over REST, or over OAuth with or without the id of its key. Each returns the status
// of the answer, and a caller with its token.
func signIn() map[string]func(t *testing.T, h *house, o owner) (int, *caller) {
	oauth := func(header map[string]any) func(t *testing.T, h *house, o owner) (int, *caller) {
		return func(t *testing.T, h *house, o owner) (int, *caller) {
			t.Helper()
			claims := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
				"iss": o.did, "sub": o.did, "aud": h.url(), "jti": rand.Text(), "exp": time.Now().Add(time.Minute).Unix(),
			})
			maps.Copy(claims.Header, header)
			assertion, err := claims.SignedString(o.private)
			if err != nil {
				t.Fatal(err)
			}
			return o.exchange(t, h, h.url()+"/oauth/token", "application/x-www-form-urlencoded", url.Values{
				"grant_type": {"client_credentials"}, "client_assertion": {assertion},
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			}.Encode())
		}
	}
	return map[string]func(t *testing.T, h *house, o owner) (int, *caller){
		"rest": func(t *testing.T, h *house, o owner) (int, *caller) {
			t.Helper()
			var given struct{ Challenge string }
			(&caller{url: h.url()}).must(t, http.StatusOK, http.MethodPost, "auth/challenge", map[string]any{"did": o.did}, &given)
			body, err := json.Marshal(map[string]any{
				"did": o.did, "challenge": given.Challenge, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(o.private, []byte(given.Challenge))),
			})
			if err != nil {
				t.Fatal(err)
			}
			return o.exchange(t, h, h.url()+"/api/v1/auth/token", "application/json", string(body))
		},
		"oauth":          oauth(nil),
		"oauth_with_kid": oauth(map[string]any{"kid": "#now"}),
	}
}

// exchange posts a proof for a token.
func (o owner) exchange(t *testing.T, h *house, address, kind, body string) (int, *caller) {
	t.Helper()
	response, err := http.Post(address, kind, strings.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(text, &tokens); err != nil {
		t.Fatalf("%s answers %s: %v", address, text, err)
	}
	return response.StatusCode, &caller{url: h.url(), did: o.did, token: tokens.Access}
}

// A document replaces its key: the new key logs in at once, and the sessions of the old one end then, whether the
// gateway saw the document before or was off in between.
func TestLoginWithAReplacedKeyEndsSessionsOfTheOldOne(t *testing.T) {
	w := newWeb(t)
	irc := federationtest.FreeAddr(t)
	h := newHouse(t, "[fetch]\nallow_private = true\n", "[limits]\n"+anyAddress, fmt.Sprintf("[irc.client]\nlisten = %q\n", irc))
	h.start(t)
	h.ready(t)
	type login struct {
		old, replaced owner
		sessions      []*caller
	}
	enter := func(name string) login {
		l := login{old: w.replace(t, name)}
		for way, in := range signIn() {
			status, c := in(t, h, l.old)
			if status != http.StatusOK {
				t.Fatalf("%s logs in over %s: %d", name, way, status)
			}
			l.sessions = append(l.sessions, c)
		}
		return l
	}
	leave := func(name, way string, l login) {
		t.Helper()
		if status, _ := signIn()[way](t, h, l.old); status != http.StatusUnauthorized {
			t.Errorf("%s: the old key is answered %d", name, status)
		}
		for _, c := range l.sessions {
			c.must(t, http.StatusUnauthorized, http.MethodGet, "inbox", nil, nil)
		}
	}
	away := map[string]login{}
	for name, in := range signIn() {
		l := enter(name)
		client, err := bridgetest.LogInIRC(t.Context(), irc, "irc-"+strings.ReplaceAll(name, "_", "-"), l.old.prove)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		l.replaced = w.replace(t, name)
		status, c := in(t, h, l.replaced)
		if status != http.StatusOK {
			t.Errorf("%s: the new key is answered %d", name, status)
		}
		leave(name, name, l)
		c.must(t, http.StatusOK, http.MethodGet, "inbox", nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := client.Next(ctx, func(m bridgetest.IRCMessage) bool { return m.Command == "ERROR" }); err != nil {
			t.Errorf("%s: the IRC client with the old key stays: %v", name, err)
		}
		away[name] = enter(name + "_away")
	}
	h.stop(t)
	for way, l := range away {
		l.replaced = w.replace(t, way+"_away")
		away[way] = l
	}
	h.start(t)
	h.ready(t)
	for way, in := range signIn() {
		l := away[way]
		for _, c := range l.sessions {
			c.must(t, http.StatusOK, http.MethodGet, "inbox", nil, nil) // the document was not fetched yet
		}
		if status, _ := in(t, h, l.replaced); status != http.StatusOK {
			t.Errorf("%s after a restart: the new key is answered %d", way, status)
		}
		leave(way+" after a restart", way, l)
	}
}

func (o owner) prove(challenge string) (string, error) {
	document, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil {
		return "", err
	}
	answer, err := json.Marshal(map[string]any{"did": o.did, "signature": base64.RawURLEncoding.EncodeToString(ed25519.Sign(o.private, document))})
	return base64.RawURLEncoding.EncodeToString(answer), err
}
