package agentapi_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"baton/bridge"
	"baton/bridge/agentapi"
	"baton/bridge/agentapi/contract"
	"baton/bridge/bridgetest"
	"baton/bridge/credential"
	"baton/bridge/participant"
	"baton/bridge/webhook"
	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/home"
	"baton/federation/identity"
	"baton/federation/lifecycle"
	"baton/translate/dialect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is the API on a record in memory and a real home.
type world struct {
	link     *agentapi.Link
	record   *federationtest.Memory
	gateway  *gateway
	wakes    *wakes
	outside  *outside // that webhooks call
	webhooks *webhook.Hooks
	mux      *http.ServeMux
	router   routers.Router // of the contract, to hold answers to it

	mu      sync.Mutex
	members map[string][]federation.DID // by channel
	left    int                         // steps that each DID has left
	charged int                         // steps that were counted without a home
	logins  int                         // what an address may ask for in a minute; 0 for no limit
}

func newWorld(tb testing.TB, change ...func(*agentapi.Deps)) *world {
	tb.Helper()
	w := &world{record: federationtest.NewMemory(), mux: http.NewServeMux(), wakes: &wakes{}, left: 59, members: map[string][]federation.DID{}}
	w.gateway = &gateway{record: w.record, wakes: w.wakes, home: &home.Home{
		Rules: home.Rules{ID: "gw.example", Kinds: lifecycle.Shipped(), Limits: home.Limits{ClockSkew: 120 * time.Second}},
		Key:   kept("server"), Snapshots: w.record, Log: w.record, Overdue: w.record,
		Keys: keys{}, Entropy: rand.Reader, Rates: home.NewRates(), Routes: bridge.Links{},
		Write: func(ev federation.Event) map[string]string {
			fields, _ := dialect.Write(ev)
			return fields
		},
	}}
	w.gateway.home.Same = w.gateway.Same
	contexts := bridgetest.Contexts(w.record, 1<<20, 0)
	deps := agentapi.Deps{
		Deps: participant.Deps{
			Ports: bridge.Ports{
				Home: "gw.example", Gateway: w.gateway, Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
				PublicURL: "https://gw.example", HTTP: bridge.HTTP{MaxBodyBytes: 65536}, Wakes: w.wakes,
				Signer: bridgetest.Signer(kept), Bindings: bridgetest.KeptNames{Record: w.record}, Evidence: contexts, Keys: bridgetest.Keys{Prove: prove},
			},
			Handoffs: w.record, Inbox: w.record, Answers: w.record, Steps: w.record,
			Skills: skills{w.record}, Callers: callers{}, Venues: w, Rates: w, Passports: passports{}, TokenKey: bytes.Repeat([]byte{7}, 32),
			Streams: &participant.Streams{}, Logins: credential.NewAddresses(func() int { return w.logins }, time.Minute),
		},
		Leases: w.record, Notices: w.record, Sessions: w.record, Webhooks: w.record, Hooks: w.hooks(),
	}
	for _, change := range change {
		change(&deps)
	}
	w.link = agentapi.Open(agentapi.Config{MaxWait: 50 * time.Second, MaxStreams: 8}, deps)
	w.link.Mount(w.mux)
	spec, err := contract.GetSpec()
	if err != nil {
		tb.Fatal(err)
	}
	spec.Servers, spec.OpenAPI = nil, "3.0.3" // as the API reads it, and for the same reason
	if w.router, err = gorillamux.NewRouter(spec); err != nil {
		tb.Fatal(err)
	}
	return w
}

// skills keeps skills in a record in memory.
type skills struct{ *federationtest.Memory }

func (s skills) Declared(ctx context.Context, did federation.DID) ([]string, error) {
	return s.Declaration(ctx, did)
}

// prove judges signatures of DIDs that are keys.
func prove(_ context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error) {
	key, err := identity.ParseKeyDID(did)
	if err == nil && ed25519.Verify(key, message, signature) {
		return federation.Valid, nil
	}
	return federation.Invalid, nil
}

// callers are one operator.
type callers struct{}

func (callers) Authenticate(*http.Request) (did federation.DID, ok bool, err error) {
	return "", false, nil
}

func (callers) Operator(r *http.Request) (bool, error) {
	text, err := credential.Bearer(r)
	return text == "operator", err
}

// passports are all the same.
type passports struct{}

func (passports) Passport(context.Context, federation.View, time.Time) (bridge.Document, error) {
	return bridge.Document{MediaType: "application/vnd.baton.passport+json", Content: []byte(`{"passport":1}`)}, nil
}

// Placers implements [participant.Venues].
func (*world) Placers() []bridge.Placer { return []bridge.Placer{placer{}} }

// Member implements [participant.Venues].
func (w *world) Present(_ context.Context, venue string, did federation.DID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.members[venue], did)
}

// Pusher implements [webhook.Pushers].
func (w *world) Pusher(federation.Webhook) bridge.Pusher { return w.link } //nolint:ireturn // the port has it

// Left implements [participant.Rates].
func (w *world) Left(_ federation.DID, now time.Time) bridge.Allowance {
	return bridge.Allowance{Limit: 60, Left: w.left, Full: now}
}

// Charge implements [participant.Rates].
func (w *world) Charge(federation.DID, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charged++
}

// join puts a DID into a channel.
func (w *world) join(venue string, did federation.DID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members[venue] = append(w.members[venue], did)
}

// answer is the response to an agent.
type answer struct {
	Status int
	Header http.Header
	Text   string
}

// member returns a member of an answer, "" where it is none.
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

// inContract holds an answer to what the contract says of it.
func (w *world) inContract(tb testing.TB, r *http.Request, got *http.Response, text []byte) {
	tb.Helper()
	route, params, err := w.router.FindRoute(r)
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

// login returns an agent that has proved its DID.
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

// proof returns the answer to a challenge.
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

// step takes a step that is to be filed.
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

// kept returns the key that the gateway keeps under a name.
func kept(name string) federation.SigningKey { return keyOf("kept " + federation.DID(name).Hash()) }

// keys is the key source of a world where every DID is a did:key.
type keys struct{}

func (keys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	key, err := identity.ParseKeyDID(q.DID)
	return []ed25519.PublicKey{key}, err
}

func (keys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// placer is a link with one channel.
type placer struct{ bridge.Placer }

func (placer) Channels() []string          { return []string{"#ops"} }
func (placer) Dialect() federation.Dialect { return federation.HandoffTags }

// gateway is the program that the API runs in.
type gateway struct {
	home   *home.Home
	record *federationtest.Memory
	wakes  *wakes
}

func (g *gateway) FetchKey(context.Context, federation.Event) {} // every key of these tests is at hand

func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	judged, err := g.home.Submit(ctx, ev, time.Now())
	if err == nil {
		for _, did := range judged.View.Others(judged.Entry.Event.Actor()) {
			g.wakes.Wake(bridge.DIDTopic(did))
		}
		g.wakes.Wake(bridge.WebhooksTopic)
	}
	return judged, err
}

func (g *gateway) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	return g.record.View(ctx, id)
}

func (*gateway) Name(_ context.Context, did federation.DID) string { return did.Short() }

func (*gateway) Same(_ context.Context, a, b federation.DID) bool {
	return a == b || kept("person:"+string(a)).DID == b || kept("person:"+string(b)).DID == a
}

func (*gateway) Place(context.Context, federation.DID, federation.DID, string) (federation.Place, federation.Dialect, error) {
	return federation.Place{}, federation.HandoffTags, nil
}

// wakes wakes the waiting callers of a topic.
type wakes struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool
}

func (w *wakes) Wake(topics ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range topics {
		for wake := range w.waiting[topic] {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}
}

func (w *wakes) Subscribe(topic string) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]map[chan struct{}]bool{}
	}
	if w.waiting[topic] == nil {
		w.waiting[topic] = map[chan struct{}]bool{}
	}
	w.waiting[topic][wake] = true
	return wake, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[topic], wake)
	}
}
