package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge/agents/mcp"
	"github.com/baton-gateway/baton/bridge/agents/oauth"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is MCP on a gateway in memory, behind a real listener.
type world struct {
	*bridgetest.Participants

	deps   participant.Deps
	access *participant.Service
	server *httptest.Server
}

// newFake returns a world without a listener, for tests that stop the clock.
func newFake(tb testing.TB) *world {
	tb.Helper()
	w := &world{Participants: bridgetest.NewParticipants(tb)}
	w.deps = w.Deps()
	w.access = participant.Open("mcp", w.deps)
	return w
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{Participants: bridgetest.NewParticipants(tb)}
	w.server = httptest.NewUnstartedServer(nil)
	mux := http.NewServeMux()
	w.server.Config.Handler = mux
	w.server.Start()
	w.deps = w.Deps()
	w.deps.PublicURL = w.server.URL
	w.access = participant.Open("rest", w.deps)
	oauth.New(oauth.Deps{Deps: w.deps}).Mount(mux)
	link := mcp.Open(w.deps, "1.2.3")
	link.Mount(mux)
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = link.Run(ctx, func() {}) }()
	tb.Cleanup(func() {
		stop()
		<-ended
		w.server.Close()
	})
	return w
}

// agent is a DID with a token.
type agent struct {
	w     *world
	did   federation.DID
	key   federation.SigningKey
	token string
}

func (w *world) agent(tb testing.TB, name string) *agent {
	tb.Helper()
	key := bridgetest.SeededKey("test " + name)
	now := time.Now()
	session := credential.NewSession(federation.Session{Participant: string(key.DID), Began: federation.BeganDID}, now)
	token, err := w.access.Tokens().Issue(string(key.DID), credential.Claims{Use: credential.Access, Session: session.ID}, now, now.Add(time.Hour))
	if err := errors.Join(err, w.Record.StartSession(tb.Context(), session)); err != nil {
		tb.Fatal(err)
	}
	return &agent{w, key.DID, key, token}
}

// bearer adds a token to each request.
type bearer string

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect returns a session of the official client, of the newest revision or of an older one.
func (a *agent) connect(tb testing.TB, revision string, o *sdk.ClientOptions) *sdk.ClientSession {
	tb.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	transport := &sdk.StreamableClientTransport{Endpoint: a.w.server.URL + mcp.Path, HTTPClient: &http.Client{Transport: bearer(a.token)}, DisableStandaloneSSE: true}
	session, err := client.Connect(tb.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = session.Close() })
	if got := session.InitializeResult().ProtocolVersion; revision != "" && got != revision {
		tb.Fatalf("the revision is %s, want %s", got, revision)
	}
	return session
}

// overStreams returns a session of the official client on a pair of streams, of the revision
// 2025-11-25.
func overStreams(tb testing.TB, account mcp.Account, o *sdk.ClientOptions) *sdk.ClientSession {
	tb.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = mcp.Serve(context.WithoutCancel(tb.Context()), account, mcp.Options{Version: "1.2.3"}, in, out)
	}()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(tb.Context(),
		&sdk.IOTransport{Reader: fromServer, Writer: toServer}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = session.Close()
		<-over
	})
	return session
}

// result is the answer of a tool.
type result struct {
	*sdk.CallToolResult

	tb   testing.TB
	Text string
}

func call(tb testing.TB, s *sdk.ClientSession, name string, arguments map[string]any) result {
	tb.Helper()
	got, err := s.CallTool(tb.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	if len(got.Content) != 1 {
		tb.Fatalf("%s has %d contents", name, len(got.Content))
	}
	text, _ := got.Content[0].(*sdk.TextContent)
	return result{got, tb, text.Text}
}

// into decodes the structured content.
func (r result) into(value any) {
	r.tb.Helper()
	text, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		r.tb.Fatal(err)
	}
}

// ok fails the test if the tool refused.
func (r result) ok() result {
	r.tb.Helper()
	if r.IsError {
		r.tb.Fatalf("refused: %s", r.Text)
	}
	return r
}

// problem is the error of a tool.
type problem struct {
	Error struct {
		Code, Detail, Assignee string
		Retryable              bool
		RetryAfter             int `json:"retry_after"`
	}
}

func (r result) problem() problem {
	r.tb.Helper()
	var p problem
	if !r.IsError {
		r.tb.Fatalf("no error: %s", r.Text)
	}
	r.into(&p)
	return p
}

// filed is the answer to a step.
type filed struct {
	ID      string `json:"id"`
	EventID string `json:"event_id"`
	State   string `json:"state"`
}

func (r result) filed() (f filed) {
	r.tb.Helper()
	r.ok().into(&f)
	return f
}
