package rest_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/webhook"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the API on a record and a real home.
type world struct {
	*bridgetest.Participants

	link     *rest.Link
	record   *registry.Record
	outside  *outside // that webhooks call
	webhooks *webhook.Hooks
	mux      *http.ServeMux
}

func newWorld(tb testing.TB, change ...func(*rest.Deps)) *world {
	tb.Helper()
	w := &world{Participants: bridgetest.NewParticipants(tb), mux: http.NewServeMux()}
	w.record = w.Record
	deps := rest.Deps{Deps: w.Deps(), Hooks: w.hooks()}
	for _, change := range change {
		change(&deps)
	}
	w.link = rest.Open(rest.Config{MaxWait: 50 * time.Second, MaxStreams: 8}, deps)
	w.link.Mount(w.mux)
	return w
}

// routes returns a router of the contract, to check answers with it. It takes longer than most tests.
var routes = sync.OnceValues(func() (routers.Router, error) {
	spec, err := openapi3.NewLoader().LoadFromData(contract.Document())
	if err != nil {
		return nil, err
	}
	spec.Servers, spec.OpenAPI = nil, "3.0.3" // the library compiles each schema of 3.1 for each answer
	return gorillamux.NewRouter(spec)
})

// Pusher implements the port of webhook.Deps.
func (w *world) Pusher(federation.Webhook) bridge.Pusher { return w.link } //nolint:ireturn // the port has it

// answer is the response to an agent.
type answer struct {
	Status int
	Header http.Header
	Text   string
}

// member returns a member of an answer, "" if it is none.
func (a answer) member(name string) string {
	var members map[string]any
	if json.Unmarshal([]byte(a.Text), &members) != nil {
		return ""
	}
	text, _ := members[name].(string)
	return text
}

// ask sends a request, and holds the answer to the contract.
func (w *world) ask(tb testing.TB, token, method, path string, body any, header ...string) answer {
	tb.Helper()
	var sent io.Reader
	if body != nil {
		text, isText := body.(string)
		if !isText {
			encoded, err := json.Marshal(body)
			if err != nil {
				tb.Fatal(err)
			}
			text = string(encoded)
		}
		sent = bytes.NewBufferString(text)
	}
	r := httptest.NewRequestWithContext(tb.Context(), method, path, sent)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	w.mux.ServeHTTP(recorder, r)
	got := recorder.Result()
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		tb.Fatal(err)
	}
	w.inContract(tb, r, got, text)
	return answer{got.StatusCode, got.Header, string(text)}
}

func (w *world) inContract(tb testing.TB, r *http.Request, got *http.Response, text []byte) {
	tb.Helper()
	router, err := routes()
	if err != nil {
		tb.Fatal(err)
	}
	route, params, err := router.FindRoute(r)
	if err != nil {
		return // a path or a method that the contract does not have
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 got.StatusCode, Header: got.Header, Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(text)
	if err := openapi3filter.ValidateResponse(tb.Context(), input); err != nil {
		tb.Errorf("%s %s is answered %d, which is not in the contract: %v\n%s", r.Method, r.URL, got.StatusCode, err, text)
	}
}

// agent is a caller with a key and a token.
type agent struct {
	w     *world
	did   federation.DID
	key   federation.SigningKey
	token string
}

func (w *world) login(tb testing.TB, name string) *agent {
	tb.Helper()
	a := &agent{w: w, key: keyOf(name)}
	a.did = a.key.DID
	challenge := w.ask(tb, "", http.MethodPost, "/api/v1/auth/challenge", map[string]any{"did": a.did})
	token := w.ask(tb, "", http.MethodPost, "/api/v1/auth/token", a.proof(tb, challenge.member("challenge")))
	if a.token = token.member("access_token"); token.Status != http.StatusOK || a.token == "" {
		tb.Fatalf("login is answered %d %s", token.Status, token.Text)
	}
	return a
}

func (a *agent) proof(tb testing.TB, challenge string) map[string]any {
	tb.Helper()
	signature, err := a.key.Sign(tb.Context(), []byte(challenge))
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]any{"did": a.did, "challenge": challenge, "signature": base64.RawURLEncoding.EncodeToString(signature)}
}

func (a *agent) get(tb testing.TB, path string, header ...string) answer {
	tb.Helper()
	return a.w.ask(tb, a.token, http.MethodGet, path, nil, header...)
}

func (a *agent) post(tb testing.TB, path string, body any, header ...string) answer {
	tb.Helper()
	return a.w.ask(tb, a.token, http.MethodPost, path, body, header...)
}

// offer files an offer, and returns its id.
func (a *agent) offer(tb testing.TB, body map[string]any) string {
	tb.Helper()
	got := a.post(tb, "/api/v1/handoffs", body)
	if got.Status != http.StatusCreated {
		tb.Fatalf("the offer is answered %d %s", got.Status, got.Text)
	}
	return got.member("id")
}

// step takes a step that must be filed.
func (a *agent) step(tb testing.TB, id, verb string, body map[string]any) {
	tb.Helper()
	var sent any
	if body != nil {
		sent = body
	}
	if got := a.post(tb, "/api/v1/handoffs/"+id+"/"+verb, sent); got.Status != http.StatusCreated {
		tb.Fatalf("%s is answered %d %s", verb, got.Status, got.Text)
	}
}

// keyOf returns the key of the agent with a name.
func keyOf(name string) federation.SigningKey {
	seed := bytes.Repeat([]byte(name), ed25519.SeedSize)[:ed25519.SeedSize]
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{
		Public: public, DID: identity.KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}
}
