package a2aclient_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

const (
	patience = 20 * time.Second
	agentDID = federation.DID("did:web:gw.example:a2a:researcher")
)

// world is a gateway with a link to one agent.
type world struct {
	*bridgetest.Participants

	ports bridge.Ports
	deps  a2aclient.Deps
	link  bridge.Link
	ada   federation.DID
}

func newWorld(t *testing.T, card string) *world {
	t.Helper()
	w := &world{Participants: bridgetest.NewParticipants(t), ada: bridgetest.SeededKey("ada").DID}
	w.ports = w.Participants.Deps().Ports
	w.deps = a2aclient.Deps{
		Journals: w.Record.Journals, Record: storetest.Bound(w.Record), Hub: &a2aclient.Hub{},
		Transport: func(private bool) *http.Transport {
			return identity.NewTransport(identity.FetchConfig{AllowPrivate: private})
		},
	}
	w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: card, AllowPrivate: true, OfferFrom: []string{"any"}})
	return w
}

type table a2aclient.Config

// Decode implements [bridge.Table].
func (c table) Decode(into any) {
	if cfg, ok := into.(*a2aclient.Config); ok {
		*cfg = a2aclient.Config(c)
	}
}

func (w *world) open(t *testing.T, cfg a2aclient.Config) bridge.Link { //nolint:ireturn // the network returns it
	t.Helper()
	link, err := a2aclient.Network(w.deps).Open(table(cfg), w.ports)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// run runs the link until the test ends or stop is called, and returns when it is up.
func (w *world) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.link.Run(ctx, sync.OnceFunc(func() { close(up) })) }()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	select {
	case <-up:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("the link is not up")
	}
	return stop
}

// offer files an offer of ada to the agent, and returns its delivery.
func (w *world) offer(t *testing.T, title string) federation.Delivery {
	t.Helper()
	builder := stepbuilder.Builder{
		Network: "rest", Home: w.ports.Home, Gateway: w, Record: w.deps.Record, Signer: w.ports.Signer, Evidence: w.ports.Evidence,
		Bindings: w.ports.Bindings, PublicURL: w.ports.PublicURL,
	}
	ev, _, err := builder.Vouch(t.Context(), stepbuilder.Draft{
		From: w.ada, Proved: true, Verb: federation.Offer, To: agentDID, Title: title, Original: title,
	}, federation.View{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	judged, err := w.Submit(t.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	return federation.Delivery{Entry: judged.Entry, View: judged.View}
}

// awaitState waits until a handoff is in a state.
func (w *world) awaitState(t *testing.T, id federation.HandoffID, want federation.State) {
	t.Helper()
	var view federation.View
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var err error
		if view, err = w.View(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if view.State == want {
			return
		}
	}
	t.Fatalf("the handoff is %s, want %s", view.State, want)
}

// awaitNoJournal waits until no task has a journal: it ends with the handoff.
func (w *world) awaitNoJournal(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if names, err := w.Record.JournalNames(t.Context(), "a2a-agent/", "", 10); err == nil && len(names) == 0 {
			return
		}
	}
	t.Fatal("the journal of the task stays")
}

type answer func(w http.ResponseWriter, method string, id any)

// serveCard serves the card of an agent with one interface.
func serveCard(mux *http.ServeMux, more map[string]any, binding wire.TransportProtocol, address string) {
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		card := map[string]any{
			"name": "Liar", "description": "x", "version": "1", "capabilities": map[string]any{}, "skills": []any{},
			"supportedInterfaces": []any{map[string]any{"url": address, "protocolBinding": binding, "protocolVersion": "1.0"}},
		}
		maps.Copy(card, more)
		_ = json.NewEncoder(w).Encode(card)
	})
}

// liar is an agent that answers each method of JSON-RPC by the function of a test.
func liar(t *testing.T, card map[string]any, answer answer) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	serveCard(mux, card, wire.TransportProtocolJSONRPC, server.URL+"/rpc")
	mux.HandleFunc("POST /rpc", func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w, call.Method, call.ID)
	})
	return server
}

func result(w http.ResponseWriter, id, value any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "result": value}) //nolint:errchkjson // the client may be gone
}

// failure writes the error of a call.
func failure(w http.ResponseWriter, id any, code int, message string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}}) //nolint:errchkjson // the client may be gone
}

func taskOf(id string, state wire.TaskState) map[string]any {
	return map[string]any{"id": id, "contextId": "c", "status": map[string]any{"state": state}}
}

// signedCard returns a server of a card signed with the current key.
func signedCard(t *testing.T, key func() ed25519.PrivateKey, forge, away func() bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	encode := base64.RawURLEncoding.EncodeToString
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		if away() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		public, _ := key().Public().(ed25519.PublicKey)
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": encode(public)}}})
	})
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		card := map[string]any{
			"name": "Signed", "description": "x", "version": "1", "capabilities": map[string]any{"streaming": false}, "skills": []any{},
			"supportedInterfaces": []any{map[string]any{"url": server.URL + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
		}
		plain, err := json.Marshal(card)
		if err != nil {
			t.Error(err)
		}
		canonical, err := jcs.Transform(plain)
		if err != nil {
			t.Error(err)
		}
		header := encode([]byte(`{"alg":"EdDSA","jku":"` + server.URL + `/keys","kid":"k"}`))
		signature := ed25519.Sign(key(), []byte(header+"."+encode(canonical)))
		card["signatures"] = []any{map[string]any{"protected": header, "signature": encode(signature)}}
		if forge() {
			card["name"] = "Forged"
		}
		_ = json.NewEncoder(w).Encode(card)
	})
	return server
}
