package oauth_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/oauth"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/identity"
)

// client is a client of the authorization server, with a key of its own.
type client struct {
	t   *testing.T
	mux *http.ServeMux
	key ed25519.PrivateKey
	did string
}

func newClient(t *testing.T, d participant.Deps) *client {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	oauth.New(oauth.Deps{Deps: d}).Mount(mux)
	return &client{t, mux, private, string(identity.KeyDID(public))}
}

func (c *client) claims() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": c.did, "sub": c.did, "aud": "https://gw.example", "jti": time.Now().String(), "exp": time.Now().Add(5 * time.Minute).Unix(),
	}
}

func (c *client) assertion(claims jwt.MapClaims) string {
	c.t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims).SignedString(c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// form returns the form of a good request, with an assertion.
func form(assertion string) url.Values {
	return url.Values{
		"grant_type": {"client_credentials"}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
}

// ask posts a form.
func (c *client) ask(f url.Values) (status int, answer map[string]any) {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), http.MethodPost, "/oauth/token", strings.NewReader(f.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	c.mux.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		c.t.Fatal(err)
	}
	return w.Code, answer
}

func TestTokenIsIssuedForAnAssertion(t *testing.T) {
	t.Parallel()
	deps := bridgetest.NewParticipants(t).Deps()
	access, c := participant.Open("rest", deps), newClient(t, deps)
	for name, change := range map[string]func(jwt.MapClaims, url.Values){
		"the issuer as audience": func(jwt.MapClaims, url.Values) {},
		"with a slash":           func(m jwt.MapClaims, _ url.Values) { m["aud"] = "https://gw.example/" },
		"the endpoint":           func(m jwt.MapClaims, _ url.Values) { m["aud"] = []string{"x", "https://gw.example/oauth/token"} },
		"a client_id and a resource with it": func(_ jwt.MapClaims, f url.Values) {
			f.Set("client_id", c.did)
			f.Set("resource", "https://gw.example/mcp")
		},
		"the resource of another agents' API": func(_ jwt.MapClaims, f url.Values) { f.Set("resource", "https://gw.example/a2a") },
	} {
		claims, f := c.claims(), form("")
		change(claims, f)
		f.Set("client_assertion", c.assertion(claims))
		status, answer := c.ask(f)
		token, _ := answer["access_token"].(string)
		if status != http.StatusOK || answer["token_type"] != "Bearer" || answer["expires_in"] == nil || answer["refresh_token"] != nil {
			t.Errorf("%s: %d %v", name, status, answer)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if who, err := access.Authenticate(r, time.Now()); err != nil || string(who.DID) != c.did || who.Operator || who.Bound {
			t.Errorf("%s: the token is that of %+v, %v", name, who, err)
		}
	}
}

func TestAssertionIsValidated(t *testing.T) {
	t.Parallel()
	gateway := bridgetest.NewParticipants(t)
	c := newClient(t, gateway.Deps())
	other := newClient(t, gateway.Deps())
	used := c.claims()
	if status, answer := c.ask(form(c.assertion(used))); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	soon := func(length time.Duration) int64 { return time.Now().Add(length).Unix() }
	for name, tt := range map[string]struct {
		change func(jwt.MapClaims, url.Values)
		status int
		code   string
	}{
		"a jti a second time":  {func(m jwt.MapClaims, _ url.Values) { m["jti"] = used["jti"] }, 401, "invalid_client"},
		"no jti":               {func(m jwt.MapClaims, _ url.Values) { delete(m, "jti") }, 401, "invalid_client"},
		"another audience":     {func(m jwt.MapClaims, _ url.Values) { m["aud"] = "https://elsewhere.example" }, 401, "invalid_client"},
		"an end too far":       {func(m jwt.MapClaims, _ url.Values) { m["exp"] = soon(11 * time.Minute) }, 401, "invalid_client"},
		"no end":               {func(m jwt.MapClaims, _ url.Values) { delete(m, "exp") }, 401, "invalid_client"},
		"an end in the past":   {func(m jwt.MapClaims, _ url.Values) { m["exp"] = soon(-61 * time.Second) }, 401, "invalid_client"},
		"not yet good":         {func(m jwt.MapClaims, _ url.Values) { m["nbf"] = soon(2 * time.Minute) }, 401, "invalid_client"},
		"another issuer":       {func(m jwt.MapClaims, _ url.Values) { m["iss"] = other.did }, 401, "invalid_client"},
		"a DID of another key": {func(m jwt.MapClaims, _ url.Values) { m["iss"], m["sub"] = other.did, other.did }, 401, "invalid_client"},
		"no DID":               {func(m jwt.MapClaims, _ url.Values) { m["iss"], m["sub"] = "scout", "scout" }, 401, "invalid_client"},
		"another client_id":    {func(_ jwt.MapClaims, f url.Values) { f.Set("client_id", other.did) }, 401, "invalid_client"},
		"another resource":     {func(_ jwt.MapClaims, f url.Values) { f.Set("resource", "https://elsewhere.example/mcp") }, 400, "invalid_target"},
		"another grant":        {func(_ jwt.MapClaims, f url.Values) { f.Set("grant_type", "password") }, 400, "unsupported_grant_type"},
		"no grant":             {func(_ jwt.MapClaims, f url.Values) { f.Del("grant_type") }, 400, "invalid_request"},
		"a parameter twice":    {func(_ jwt.MapClaims, f url.Values) { f.Add("grant_type", "client_credentials") }, 400, "invalid_request"},
		"another type":         {func(_ jwt.MapClaims, f url.Values) { f.Set("client_assertion_type", "x") }, 401, "invalid_client"},
	} {
		claims, f := c.claims(), form("")
		tt.change(claims, f)
		f.Set("client_assertion", c.assertion(claims))
		if status, answer := c.ask(f); status != tt.status || answer["error"] != tt.code || answer["access_token"] != nil {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, c.claims()).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	for name, assertion := range map[string]string{"no signature": unsigned, "no JWT": "x.y", "none": ""} {
		if status, answer := c.ask(form(assertion)); status != http.StatusUnauthorized || answer["error"] != "invalid_client" {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
}

func TestMetadataOfTheAuthorizationServer(t *testing.T) {
	t.Parallel()
	c := newClient(t, bridgetest.NewParticipants(t).Deps())
	get := func(path string) (int, map[string]any) {
		w := httptest.NewRecorder()
		c.mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		return w.Code, answer
	}
	want := map[string]any{
		"issuer": "https://gw.example", "token_endpoint": "https://gw.example/oauth/token", "authorization_endpoint": "https://gw.example/oauth/authorize",
		"registration_endpoint": "https://gw.example/oauth/register", "revocation_endpoint": "https://gw.example/oauth/revoke",
		"device_authorization_endpoint": "https://gw.example/oauth/device_authorization", "client_id_metadata_document_supported": true,
		"code_challenge_methods_supported": []any{"S256"}, "response_types_supported": []any{"code"}, "scopes_supported": []any{"handoffs"},
		"grant_types_supported":                            []any{"authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:device_code"},
		"token_endpoint_auth_methods_supported":            []any{"none", "private_key_jwt"},
		"token_endpoint_auth_signing_alg_values_supported": []any{"EdDSA", "ES256"}, "authorization_response_iss_parameter_supported": true,
	}
	_, got := get("/.well-known/oauth-authorization-server")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the metadata (-want +got):\n%s", d)
	}
}

func TestAssertionClaimsAreReadByTheirExactNames(t *testing.T) {
	t.Parallel()
	c := newClient(t, bridgetest.NewParticipants(t).Deps())
	other := newClient(t, bridgetest.NewParticipants(t).Deps())
	for name, more := range map[string]jwt.MapClaims{
		"another subject":  {"Sub": other.did},
		"another issuer":   {"ISS": other.did, "\u017fub": other.did},
		"another end":      {"Exp": time.Now().Add(time.Minute).Unix()},
		"another audience": {"auD": "https://gw.example"},
	} {
		claims := c.claims()
		maps.Copy(claims, more)
		status, answer := c.ask(form(c.assertion(claims)))
		if description, _ := answer["error_description"].(string); status != http.StatusUnauthorized || !strings.Contains(description, " is not ") {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	claims := c.claims()
	claims["scope"], claims["Purpose"] = "x", "y"
	if status, answer := c.ask(form(c.assertion(claims))); status != http.StatusOK {
		t.Errorf("unknown claims: %d %v", status, answer)
	}
}

func (c *client) assertionOf(header, claims string) string {
	signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(c.key, []byte(signed)))
}

func TestAssertionIsJudgedByItsAlgorithmAndItsTimes(t *testing.T) {
	t.Parallel()
	c := newClient(t, bridgetest.NewParticipants(t).Deps())
	at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	const eddsa = `{"alg":"EdDSA"}`
	for name, tt := range map[string]struct {
		header, times string
		status        int
		says          string
	}{
		"the other name of EdDSA":                         {`{"alg":"Ed25519","typ":"JWT"}`, `"exp":` + at(time.Minute), 200, ""},
		"another algorithm than that of the key":          {`{"alg":"ES256"}`, `"exp":` + at(time.Minute), 401, "does not fit the key"},
		"an algorithm that is no algorithm of assertions": {`{"alg":"HS256"}`, `"exp":` + at(time.Minute), 401, "alg is not"},
		"an unknown extension":                            {`{"alg":"EdDSA","crit":["b64"]}`, `"exp":` + at(time.Minute), 401, "crit"},
		"an end a second ago":                             {eddsa, `"exp":` + at(-time.Second), 200, ""},
		"an end 50 seconds ago":                           {eddsa, `"exp":` + at(-50*time.Second), 200, ""},
		"an end over a minute ago":                        {eddsa, `"exp":` + at(-62*time.Second), 401, "has expired"},
		"a beginning in 50 seconds":                       {eddsa, `"exp":` + at(5*time.Minute) + `,"nbf":` + at(50*time.Second), 200, ""},
		"a beginning in two minutes":                      {eddsa, `"exp":` + at(5*time.Minute) + `,"nbf":` + at(2*time.Minute), 401, "nbf is in the future"},
		"a fraction of a second":                          {eddsa, `"exp":` + at(time.Minute) + `.5`, 200, ""},
		"an end of 2^63":                                  {eddsa, `"exp":9223372036854775808`, 401, "exp is invalid"},
		"an end of 10^300":                                {eddsa, `"exp":1e300`, 401, "exp is invalid"},
		"an end before 1970":                              {eddsa, `"exp":-1`, 401, "exp is invalid"},
		"an end as text":                                  {eddsa, `"exp":"` + at(time.Minute) + `"`, 401, "exp is invalid"},
		"no end":                                          {eddsa, `"exp":null`, 401, "exp is invalid"},
		"a beginning of 2^63":                             {eddsa, `"exp":` + at(time.Minute) + `,"nbf":9223372036854775808`, 401, "nbf is invalid"},
		"an issue time of 2^63":                           {eddsa, `"exp":` + at(time.Minute) + `,"iat":9223372036854775808`, 401, "iat is invalid"},
		"an end in another spelling":                      {eddsa, `"EXP":` + at(time.Minute), 401, ""},
	} {
		claims := `{"iss":"` + c.did + `","sub":"` + c.did + `","aud":"https://gw.example","jti":"` + name + `",` + tt.times + `}`
		status, answer := c.ask(form(c.assertionOf(tt.header, claims)))
		says, _ := answer["error_description"].(string)
		if status != tt.status || !strings.Contains(says, tt.says) || status == 401 && answer["error"] != "invalid_client" {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
}
