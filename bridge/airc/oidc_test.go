package airc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/federation/agents"
)

// issuerName is the issuer of the tests.
const issuerName = "https://login.test"

// login is an issuer of accounts, and a registry that takes them.
type login struct {
	*world

	key   *ecdsa.PrivateKey
	net   *internet
	spoil atomic.Bool // its keys are no JSON
	tries int
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newLogin(t *testing.T) *login {
	t.Helper()
	l := &login{key: ecKey(t), net: newInternet()}
	server := &oidctest.Server{
		PublicKeys: []oidctest.PublicKey{{PublicKey: l.key.Public(), KeyID: "k1", Algorithm: oidc.ES256}},
		Algorithms: []string{oidc.ES256, "none", "HS256"},
	}
	server.SetIssuer(issuerName)
	l.net.hosts["login.test"] = roundTripper(func(r *http.Request) *http.Response {
		recorder := httptest.NewRecorder()
		if l.spoil.Load() && r.URL.Path != "/.well-known/openid-configuration" {
			_, _ = recorder.WriteString("<html>")
		} else {
			server.ServeHTTP(recorder, r)
		}
		return recorder.Result()
	})
	l.world = newWorld(t, func(c *airc.Config, d *airc.Deps) {
		c.OIDC, d.Issuer = airc.OIDCConfig{Issuer: issuerName, Audience: "baton"}, l.net.client()
	})
	return l
}

// claims returns the claims of a token, with each change made.
func claims(changes ...string) string {
	said := map[string]string{
		"iss": `"` + issuerName + `"`, "sub": `"42"`, "aud": `"baton"`, "exp": fmt.Sprint(time.Now().Add(time.Hour).Unix()),
	}
	for i := 0; i < len(changes); i += 2 {
		said[changes[i]] = changes[i+1]
	}
	var members []string
	for key, value := range said {
		members = append(members, fmt.Sprintf("%q:%s", key, value))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (l *login) token(changes ...string) map[string]any {
	return map[string]any{
		"issuer": issuerName, "subject": "42", "idToken": oidctest.SignIDToken(l.key, "k1", oidc.ES256, claims(changes...)),
	}
}

// register registers a new agent, with the members of an account for its challenge.
func (l *login) register(t *testing.T, account func(challenge string) any) (outcome string, answer, body map[string]any) {
	t.Helper()
	l.tries++
	handle := fmt.Sprintf("agent_%d", l.tries)
	a := l.stranger(handle, byte(l.tries))
	_, answer, err := a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": handle})
	if err != nil {
		t.Fatal(err)
	}
	challenge, _ := answer["challenge"].(string)
	body = a.Registration(challenge)
	body["oidc"] = account(challenge)
	status, answer, err := a.Call(t.Context(), http.MethodPost, "/register", body)
	return told(status, answer, err), answer, body
}

// always returns the same account for each challenge.
func always(account any) func(string) any { return func(string) any { return account } }

// spec: airc-v0.1.1 §11.4
func TestOIDCRegistersAnAgent(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	status, answer, body := l.register(t, func(challenge string) any { return l.token("nonce", `"`+challenge+`"`) })
	if status != "201" {
		t.Fatal(status, answer)
	}
	agent, err := l.record.Agent(t.Context(), body["handle"].(string))
	if want := (agents.Account{Issuer: issuerName, Subject: "42"}); err != nil || agent.Account != want {
		t.Errorf("kept %+v, %v", agent.Account, err)
	}
	if diff := cmp.Diff(map[string]any{"issuer": issuerName, "subject": "42"}, answer["oidc"]); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	_, identity, err := l.stranger("anybody", 1).Call(t.Context(), http.MethodGet, "/identity/"+agent.Handle, nil)
	if err != nil || strings.Contains(fmt.Sprint(identity), issuerName) {
		t.Errorf("strangers are told of the account: %v %v", identity, err)
	}
}

// spec: airc-v0.1.1 §11.4
func TestOIDCAcceptsOnlyItsIssuerAndAudience(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	other := ecKey(t)
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims())) + "."
	for name, test := range map[string]struct {
		account any
		want    string
	}{
		"without a nonce":          {l.token(), "201"},
		"without a subject beside": {map[string]any{"issuer": issuerName, "idToken": l.token("sub", `"43"`)["idToken"]}, "201"},
		"that was not given":       {nil, "201"},
		"of another registration":  {l.token("nonce", `"other"`), "401 unauthorized"},
		"for somebody else":        {l.token("aud", `"other"`), "401 unauthorized"},
		"that says another issuer": {l.token("iss", `"https://evil.test"`), "401 unauthorized"},
		"of another issuer":        {map[string]any{"issuer": "https://evil.test", "idToken": "x"}, "401 unauthorized"},
		"that has expired":         {l.token("exp", "1"), "401 unauthorized"},
		"without an end":           {l.token("exp", "null"), "401 unauthorized"},
		"of nobody":                {l.token("sub", `""`), "401 unauthorized"},
		"of another subject":       {map[string]any{"issuer": issuerName, "subject": "43", "idToken": l.token()["idToken"]}, "401 unauthorized"},
		"with a forged key":        {map[string]any{"issuer": issuerName, "idToken": oidctest.SignIDToken(other, "k1", oidc.ES256, claims())}, "401 unauthorized"},
		"with an unknown key":      {map[string]any{"issuer": issuerName, "idToken": oidctest.SignIDToken(other, "k2", oidc.ES256, claims())}, "401 unauthorized"},
		"with a claim in capitals": {l.token("SUB", `"43"`), "401 unauthorized"},
		"with a claim twice": {map[string]any{"issuer": issuerName, "idToken": oidctest.SignIDToken(l.key, "k1", oidc.ES256,
			strings.Replace(claims(), "{", `{"sub":"43",`, 1))}, "401 unauthorized"},
		"that nobody signed": {map[string]any{"issuer": issuerName, "idToken": unsigned}, "401 unauthorized"},
		"that is none":       {map[string]any{"issuer": issuerName, "idToken": "a.b.c"}, "401 unauthorized"},
		"that is missing":    {map[string]any{"issuer": issuerName}, "400 bad_request"},
	} {
		if got, answer, _ := l.register(t, always(test.account)); got != test.want {
			t.Errorf("a token %s: %s %v, want %s", name, got, answer["message"], test.want)
		}
	}
}

func TestOIDCReturnsUnavailableWithoutItsIssuer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(l *login, away bool){
		"unreachable":     func(l *login, away bool) { l.net.set("login.test", away) },
		"answers no JSON": func(l *login, away bool) { l.spoil.Store(away) },
		"gone after a while": func(l *login, away bool) {
			l.register(t, always(map[string]any{"issuer": issuerName, "idToken": "a.b.c"}))
			l.net.set("login.test", away)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLogin(t)
			away(l, true)
			status, answer, body := l.register(t, func(challenge string) any { return l.token("nonce", `"`+challenge+`"`) })
			if status != "503 unavailable" {
				t.Fatal(status, answer)
			}
			away(l, false)
			again, answer, err := l.stranger("again", 1).Call(t.Context(), http.MethodPost, "/register", body)
			if got := told(again, answer, err); got != "201" {
				t.Errorf("the same registration later: %s %v", got, answer["message"])
			}
		})
	}
}

func TestOIDCNeedsAnIssuer(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	l.world = newWorld(t)
	status, answer, _ := l.register(t, always(l.token()))
	if status != "201" || answer["oidc"] != nil {
		t.Errorf("%s %v", status, answer)
	}
}

func TestRegisterTakesTokenWithoutNonceOnce(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(-d).Unix()) }
	bound := func(l *login) func(string) any {
		return func(challenge string) any { return l.token("nonce", `"`+challenge+`"`) }
	}
	for name, test := range map[string]struct {
		first, second func(l *login) func(challenge string) any
		want          string
	}{
		"the same token": {func(l *login) func(string) any {
			return always(l.token("iat", ago(0)))
		}, nil, "401 unauthorized"},
		"a token that does not say when": {func(l *login) func(string) any { return always(l.token()) }, nil, "401 unauthorized"},
		"another token of that time": {
			func(l *login) func(string) any { return always(l.token("iat", ago(0))) },
			func(l *login) func(string) any { return always(l.token("iat", ago(time.Minute))) }, "401 unauthorized",
		},
		"a token of before a registration with a nonce": {bound, func(l *login) func(string) any {
			return always(l.token("iat", ago(time.Hour)))
		}, "401 unauthorized"},
		"a token with a nonce after it": {func(l *login) func(string) any { return always(l.token("iat", ago(0))) }, bound, "201"},
		"a token of another account": {
			func(l *login) func(string) any { return always(l.token("iat", ago(0))) },
			func(l *login) func(string) any {
				return always(map[string]any{"issuer": issuerName, "idToken": l.token("iat", ago(0), "sub", `"43"`)["idToken"]})
			}, "201",
		},
	} {
		l := newLogin(t)
		first := test.first(l)
		second := first
		if test.second != nil {
			second = test.second(l)
		}
		if got, answer, _ := l.register(t, first); got != "201" {
			t.Fatalf("%s: %s %v", name, got, answer)
		}
		got, answer, body := l.register(t, second)
		if got != test.want {
			t.Errorf("%s: %s %v, want %s", name, got, answer["message"], test.want)
		}
		if _, err := l.record.Agent(t.Context(), body["handle"].(string)); (err == nil) != (test.want == "201") {
			t.Errorf("%s: the handle is registered: %v", name, err == nil)
		}
	}
}
