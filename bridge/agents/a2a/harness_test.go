package a2a_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/a2a"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/webhook"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

type deps = a2a.Deps

// world is the face on a record and a real home, behind a real listener.
type world struct {
	link    *a2a.Link
	access  *participant.Service // of an agent that uses REST
	record  *registry.Record
	gateway *gateway
	mux     *http.ServeMux
	url     string
	outside *outside
	hooks   *webhook.Hooks
	keys    []ed25519.PublicKey // that verify cards
	leftTo  int                 // how many steps a DID has left
}

// newWorld starts a world, whose waits are short.
func newWorld(tb testing.TB, change ...func(*a2a.Deps)) *world {
	tb.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	return openWorld(tb, server.URL, mux, change...)
}

// openWorld returns a world without a listener.
func openWorld(tb testing.TB, url string, mux *http.ServeMux, change ...func(*a2a.Deps)) *world {
	tb.Helper()
	w := &world{record: storetest.Open(tb), outside: &outside{status: http.StatusOK}, leftTo: 59, url: url, mux: mux}
	wakes := &bridgetest.Topics{}
	w.gateway = &gateway{record: w.record, wakes: wakes, home: &home.Home{
		Rules: home.Rules{ID: "gw.example", Kinds: lifecycle.Shipped(), Limits: home.Limits{ClockSkew: 120 * time.Second}},
		Key:   bridgetest.SeededKey("server"), Record: w.record,
		Keys: keySource{}, Entropy: rand.Reader, Rates: home.NewRates(),
		Write: dialect.Write, Read: dialect.Read,
	}}
	w.gateway.home.Same = w.gateway.Same
	w.keys = []ed25519.PublicKey{bridgetest.SeededKey("server").Public}
	w.hooks = webhook.New(webhook.Config{MaxPerDID: 3, MaxAttempts: 2, Timeout: time.Second}, webhook.Deps{
		Record: w.record, Outside: w.outside, Key: bytes.Repeat([]byte{7}, 32), Pusher: w.Pusher, PubSub: wakes,
		Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	})
	ports := bridgetest.Ports(w.gateway)
	ports.PublicURL, ports.PubSub, ports.Evidence, ports.Bindings = w.url, wakes, bridgetest.Contexts(w.record, 1<<20, 0), bridgetest.KeptNames{Record: w.record}
	ports.HTTP = bridge.HTTP{MaxBodyBytes: 65536, MaxWait: 200 * time.Millisecond, MaxStreams: 4}
	deps := a2a.Deps{
		Deps: participant.Deps{
			Ports: ports, Record: storetest.Bound(w.record), Inbox: w.record, Callers: operators{},
			Venues: venues{}, Rates: w, Passports: passports{}, Seen: func(context.Context, federation.DID) (bool, error) { return true, nil }, TokenKey: bytes.Repeat([]byte{7}, 32), Streams: &participant.Streams{},
			Logins: credential.NewAddresses(func() int { return 0 }, time.Minute),
		},
		Agents: residents{w.record}, Hooks: w.hooks,
		PublicKeys: func(time.Time) []ed25519.PublicKey { return w.keys }, Version: "1.2.3",
	}
	for _, change := range change {
		change(&deps)
	}
	var err error
	if w.link, err = a2a.Open(deps); err != nil {
		tb.Fatal(err)
	}
	w.link.Mount(mux)
	w.access = participant.Open("rest", deps.Deps)
	return w
}

// run runs the link until the test ends.
func (w *world) run(tb testing.TB) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.link.Run(ctx, func() {}) // returns why ctx ended
	}()
	return func() { cancel(); <-ended }
}

// Pusher implements the port of webhook.Deps.
func (w *world) Pusher(federation.Webhook) bridge.Pusher { return w.link } //nolint:ireturn // the port has it

// Left implements [participant.Rates].
func (w *world) Left(_ federation.DID, now time.Time) bridge.Allowance {
	return bridge.Allowance{Limit: 60, Left: w.leftTo, Full: now}
}

// Charge implements [participant.Rates].
func (*world) Charge(federation.DID, time.Time) {}

// agent is a participant with a token.
type agent struct {
	w      *world
	did    federation.DID
	token  string
	caller participant.Caller
}

func (w *world) login(tb testing.TB, name string) *agent {
	tb.Helper()
	did := bridgetest.SeededKey(name).DID
	session := credential.NewSession(federation.Session{Participant: string(did), Began: federation.BeganDID}, time.Now())
	pair, err := w.access.Tokens().Pair(session, time.Now())
	if err := errors.Join(err, w.record.StartSession(tb.Context(), session)); err != nil {
		tb.Fatal(err)
	}
	return &agent{w: w, did: did, token: pair.Access, caller: participant.Caller{DID: did, Session: session}}
}

// declares makes the agent one that takes tasks.
func (a *agent) declares(tb testing.TB, caps ...string) *agent {
	tb.Helper()
	if _, err := a.w.access.Declare(tb.Context(), a.caller, a.did, participant.AgentUpdate{Caps: caps}, time.Now()); err != nil {
		tb.Fatal(err)
	}
	return a
}

func (a *agent) takes(tb testing.TB, id wire.TaskID, verb federation.Verb, step participant.StepRequest) string {
	tb.Helper()
	filed, err := a.w.access.Take(tb.Context(), a.caller, string(id), verb, step, participant.Request{})
	if err != nil {
		tb.Fatalf("%s: %v", verb, err)
	}
	return filed.EventID
}

// path returns the path of the endpoint of the agent.
func (a *agent) path() string { return "/a2a/" + string(a.did) }

// client returns the official client of the agent at an endpoint.
func (a *agent) client(tb testing.TB, endpoint string) *a2aclient.Client {
	tb.Helper()
	return a.clientOver(tb, endpoint, wire.TransportProtocolJSONRPC)
}

func (a *agent) clientOver(tb testing.TB, endpoint string, binding wire.TransportProtocol) *a2aclient.Client {
	tb.Helper()
	card, err := (&agentcard.Resolver{Client: http.DefaultClient}).Resolve(tb.Context(), a.w.url+cardsOf(endpoint))
	if err != nil {
		tb.Fatal(err)
	}
	card.SupportedInterfaces = slices.DeleteFunc(card.SupportedInterfaces, func(i *wire.AgentInterface) bool { return i.ProtocolBinding != binding })
	client, err := a2aclient.NewFromCard(tb.Context(), card, a2aclient.WithCallInterceptors(bearer{token: a.token}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Destroy() })
	return client
}

// cardsOf returns the path before the card of an endpoint.
func cardsOf(endpoint string) string {
	if endpoint == "/a2a" {
		return ""
	}
	return endpoint
}

// bearer adds a token to each call.
type bearer struct {
	a2aclient.PassthroughInterceptor

	token string
}

// Before implements [a2aclient.CallInterceptor].
func (b bearer) Before(ctx context.Context, req *a2aclient.Request) (context.Context, any, error) {
	req.ServiceParams.Append("Authorization", "Bearer "+b.token)
	return ctx, nil, nil
}

type answer struct {
	Status int
	Header http.Header
	Text   string

	ID     any
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    []map[string]any
	}
}

// post posts a body to a path. The version is 1.0, unless a header names another one.
func (a *agent) post(tb testing.TB, path, body string, header ...string) answer {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, a.w.url+path, bytes.NewBufferString(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	got := answer{Status: response.StatusCode, Header: response.Header, Text: string(text)}
	if got.Status == http.StatusOK {
		if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("data: ")), &got); err != nil {
			tb.Fatalf("%s is answered %s: %v", path, text, err)
		}
	}
	return got
}

// call calls a method, with parameters as JSON.
func (a *agent) call(tb testing.TB, path, method, params string) answer {
	tb.Helper()
	return a.post(tb, path, `{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":`+params+`}`)
}

// get gets a document.
func (w *world) get(tb testing.TB, path string, header ...string) answer {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, w.url+path, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer{Status: response.StatusCode, Header: response.Header, Text: string(text)}
}

// outside is the servers to which webhooks post.
type outside struct {
	mu     sync.Mutex
	status int
	posts  []posted
	came   chan struct{} // gets a token for each post, if it is not nil
}

type posted struct {
	address string
	header  http.Header
	body    string
}

// Callable implements [webhook.Outside].
func (*outside) Callable(_ context.Context, address string) error {
	if address == "https://inside.example/" {
		return identity.ErrNotAllowed
	}
	return nil
}

// Call implements [webhook.Outside].
func (o *outside) Call(_ context.Context, address string, header http.Header, body []byte) (identity.Answer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.posts = append(o.posts, posted{address, header, string(body)})
	if o.came != nil {
		o.came <- struct{}{}
	}
	return identity.Answer{Status: o.status}, nil
}

// residents are all DIDs but one, whose mailbox is elsewhere.
type residents struct{ *registry.Record }

func (residents) Here(_ context.Context, did federation.DID) (bool, error) {
	return did != bridgetest.SeededKey("elsewhere").DID, nil
}

func (r residents) AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error) {
	if did == bridgetest.SeededKey("scout").DID {
		return agents.Agent{Handle: "scout", DID: did}, nil
	}
	return r.Record.AgentOf(ctx, did)
}

type operators struct{}

func (operators) Authenticate(*http.Request) (who bridge.Authenticated, ok bool, err error) {
	return who, false, nil
}

func (operators) Operator(r *http.Request) (bool, error) {
	text, err := credential.Bearer(r)
	return text == "operator", err
}

type passports struct{}

func (passports) Passport(context.Context, federation.View, time.Time) (bridge.Document, error) {
	return bridge.Document{}, nil
}

type venues struct{}

func (venues) ChannelLinks() []bridge.ChannelLink                   { return nil }
func (venues) Present(context.Context, string, federation.DID) bool { return false }
func (venues) Statuses() []bridge.LinkStatus                        { return nil }

// keySource is for a world of only did:key DIDs.
type keySource struct{}

func (keySource) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	key, err := identity.ParseKeyDID(q.DID)
	return []ed25519.PublicKey{key}, err
}

func (keySource) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// gateway is the program around the link.
type gateway struct {
	home   *home.Home
	record *registry.Record
	wakes  *bridgetest.Topics
}

func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	judged, err := g.home.Submit(ctx, ev, time.Now())
	if err == nil {
		g.wakes.Wake(bridge.HandoffTopic(judged.View.ID), bridge.WebhooksTopic)
	}
	return judged, err
}

func (g *gateway) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	return g.record.View(ctx, id)
}

func (g *gateway) Expected(ctx context.Context, id federation.HandoffID, party federation.DID) (federation.View, error) {
	return g.home.Expected(ctx, id, party)
}

func (*gateway) Name(_ context.Context, did federation.DID) string { return did.Short() }

// Owner implements [bridge.Gateway]. No keys are kept.
func (*gateway) Owner(_ context.Context, did federation.DID) (federation.DID, error) {
	return did, nil
}

func (*gateway) DIDs(_ context.Context, did federation.DID) ([]federation.DID, error) {
	return []federation.DID{did, bridgetest.SeededKey("person:" + string(did)).DID}, nil
}

func (*gateway) Same(_ context.Context, a, b federation.DID) (bool, error) {
	kept := func(did federation.DID) federation.DID { return bridgetest.SeededKey("person:" + string(did)).DID }
	return a == b || kept(a) == b || kept(b) == a, nil
}

func (*gateway) Place(context.Context, federation.DID, federation.DID, string) (federation.ChannelRef, federation.Dialect, error) {
	return federation.ChannelRef{}, federation.HandoffTags, nil
}
