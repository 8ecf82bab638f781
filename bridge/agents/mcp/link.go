package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// Path is the path of the endpoint.
const Path = "/mcp"

// AccountPath is the path prefix for calls of the mcp command on another machine.
const AccountPath = Path + "/account/"

// metadataPath serves the name of the authorization server.
//
// spec: RFC 9728 §3.1
const metadataPath = "/.well-known/oauth-protected-resource" + Path

// Link is MCP over HTTP. It implements [bridge.Mounted]. Any replica can answer any request, but
// cancellations from revisions with sessions must reach the replica of their request.
type Link struct {
	*participant.HTTPLink

	ports   bridge.Ports
	access  *participant.Service
	version string
	tools   func() []tool
	handler http.Handler
	waits   waits
}

var _ bridge.Mounted = (*Link)(nil)

// Open returns the link. It does no I/O.
func Open(d participant.Deps, version string) *Link {
	l := &Link{
		HTTPLink: participant.NewHTTPLink(network), ports: d.Ports, access: participant.Open(network, d), version: version,
		tools: sync.OnceValue(tools), // built lazily: they use memory, and many gateways get no request
		waits: waits{of: map[waitKey]map[chan struct{}]bool{}},
	}
	l.handler = mcp.NewStreamableHTTPHandler(serverOf, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: d.HTTP.MaxBodyBytes,
		// Rebinding is harmless: a web page cannot add the required token. A proxy on this machine
		// forwards the public name of the gateway.
		DisableLocalhostProtection: true,
	})
	return l
}

// Mount implements [bridge.Mounted].
func (l *Link) Mount(mux *http.ServeMux) {
	mux.HandleFunc(Path, l.serve)
	mux.HandleFunc("POST "+AccountPath+"{operation}", l.serveAccount)
	mux.HandleFunc("GET "+metadataPath, l.getMetadata)
}

// spec: RFC 9728 §3.2
func (l *Link) getMetadata(w http.ResponseWriter, _ *http.Request) {
	participant.WriteJSON(w, http.StatusOK, map[string]any{
		"resource": l.ports.PublicURL + Path, "authorization_servers": []string{l.ports.PublicURL}, "bearer_methods_supported": []string{"header"},
	})
}

type serverKey struct{}

func serverOf(r *http.Request) *mcp.Server {
	s, _ := r.Context().Value(serverKey{}).(*mcp.Server) // every request has one
	return s
}

// serve checks the token before it reads the body.
func (l *Link) serve(w http.ResponseWriter, r *http.Request) {
	l.Hear(time.Now())
	caller, err := l.admit(r)
	if err != nil {
		p := participant.Denied(w, err, l.ports.PublicURL+metadataPath)
		l.logProblem(r.Context(), p, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	message, err := l.peek(w, r)
	if err != nil {
		l.ports.Metrics.BadInput.WithLabelValues(network, network, "body").Inc()
		if errors.Is(err, errAmbiguous) {
			participant.WriteJSON(w, http.StatusBadRequest, map[string]any{
				"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": jsonrpc.CodeParseError, "message": err.Error()},
			})
			return
		}
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if message.isUnknown(r) {
		participant.WriteJSON(w, http.StatusOK, map[string]any{
			"jsonrpc": "2.0", "id": message.ID, "error": map[string]any{"code": jsonrpc.CodeMethodNotFound, "message": "there is no such method"},
		})
		return
	}
	out := newAnswerWriter(w, r, message.waits())
	defer out.close()
	cancelled, forget := l.waits.register(caller.DID, message)
	defer forget()
	attended, leave := l.attend(r.Context(), caller, message)
	defer leave()
	s := &server{
		account: participant.Account{Access: l.access, Caller: caller}, version: l.version, tools: l.tools(),
		ended:       []<-chan struct{}{l.Ended(), attended.Done(), cancelled},
		still:       func(now time.Time) error { _, err := l.access.Authenticate(r, now); return err },
		onToolError: l.onToolError,
	}
	s.open()
	l.handler.ServeHTTP(out, r.WithContext(context.WithValue(bridge.WithSubnet(r.Context(), bridge.SubnetOf(r.RemoteAddr)), serverKey{}, s.mcp)))
}

func (l *Link) serveAccount(w http.ResponseWriter, r *http.Request) {
	l.Hear(time.Now())
	caller, err := l.admit(r)
	if err != nil {
		l.logProblem(r.Context(), participant.Denied(w, err, l.ports.PublicURL+metadataPath), err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	ctx, leave := l.access.Attend(bridge.WithSubnet(r.Context(), bridge.SubnetOf(r.RemoteAddr)), caller)
	defer leave()
	participant.AccountServer{
		Access: l.access, Caller: func(*http.Request) (participant.Caller, error) { return caller, nil },
		Changed: func(context.Context, string, federation.DID) {},
	}.ServeHTTP(w, r.WithContext(ctx))
}

// attend also ends with the caller's session if the request may block for long.
func (l *Link) attend(ctx context.Context, caller participant.Caller, m message) (context.Context, func()) {
	if !m.waits() {
		return ctx, func() {}
	}
	return l.access.Attend(ctx, caller)
}

func (l *Link) admit(r *http.Request) (participant.Caller, error) {
	if err := l.access.CheckAddress(r); err != nil {
		return participant.Caller{}, err
	}
	if err := l.access.CheckOrigin(r); err != nil {
		return participant.Caller{}, err
	}
	caller, err := l.access.Authenticate(r, time.Now())
	if err == nil {
		_, err = caller.Person()
	}
	return caller, err
}

func (l *Link) logProblem(ctx context.Context, p bridge.ProblemError, err error) {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.ports.Metrics.Refusals.WithLabelValues(network, refused.Code.Upper()).Inc()
	}
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		l.ports.Log.LogAttrs(ctx, slog.LevelError, "request not answered", slog.String("network", network),
			slog.String("link", network), slog.String("path", Path), slog.Any("err", err))
	}
}

func (l *Link) onToolError(ctx context.Context, tool string, err error) {
	if l.ports.Metrics.Fault(ctx, l.ports.Log, "request", err) {
		return
	}
	p := participant.ProblemOf(err)
	if p.Status == http.StatusTooManyRequests {
		l.ports.Metrics.Limited.WithLabelValues(network).Inc()
	}
	l.logProblem(ctx, p, err)
	l.ports.Log.LogAttrs(ctx, slog.LevelDebug, "tool refused", slog.String("network", network), slog.String("link", network),
		slog.String("path", tool), slog.String("reason", p.Code))
}

// message is read before the SDK reads it.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// waits reports whether a request may block for long.
func (m message) waits() bool { return m.Method == "tools/call" || m.Method == "subscriptions/listen" }

// isUnknown is needed because the SDK has no message for unknown methods in revisions with sessions.
func (m message) isUnknown(r *http.Request) bool {
	if len(m.ID) == 0 || r.Header.Get("Mcp-Protocol-Version") >= newestRevision {
		return false
	}
	switch m.Method {
	case "", "initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list", "prompts/list",
		"resources/subscribe", "resources/unsubscribe", "server/discover", "subscriptions/listen":
		return false
	}
	return true
}

// Two parsers could decode such JSON differently.
var errAmbiguous = errors.New("the message is not acceptable JSON")

// peek does not consume the body. The SDK rejects malformed messages, but accepts a duplicate member and
// uses the last one.
func (l *Link) peek(w http.ResponseWriter, r *http.Request) (m message, err error) {
	if r.Body == nil || r.Method != http.MethodPost {
		return m, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, l.ports.HTTP.MaxBodyBytes))
	if err != nil {
		return m, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !json.Valid(body) {
		return m, nil // the SDK reports the error
	}
	if err := federation.ExactJSON(body); err != nil {
		return m, fmt.Errorf("%w: %w", errAmbiguous, err)
	}
	if federation.DecodeJSON(body, &m) != nil {
		return message{}, nil //nolint:nilerr // the SDK tells the client
	}
	return m, nil
}

type waitKey struct {
	did federation.DID
	id  string
}

// In revisions with sessions, a cancellation is a separate request without a session ID. If two clients of
// one DID use the same request ID at the same time, both requests are cancelled.
type waits struct {
	mu sync.Mutex
	of map[waitKey]map[chan struct{}]bool
}

// register closes cancelled if another request cancels this one. The caller must call forget.
func (w *waits) register(did federation.DID, m message) (cancelled <-chan struct{}, forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.Method == "notifications/cancelled" {
		key := waitKey{did, string(m.Params.RequestID)}
		for each := range w.of[key] {
			close(each)
		}
		delete(w.of, key)
	}
	if !m.waits() {
		return nil, func() {}
	}
	key, mine := waitKey{did, string(m.ID)}, make(chan struct{})
	if w.of[key] == nil {
		w.of[key] = map[chan struct{}]bool{}
	}
	w.of[key][mine] = true
	return mine, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.of[key], mine)
		if len(w.of[key]) == 0 {
			delete(w.of, key)
		}
	}
}
