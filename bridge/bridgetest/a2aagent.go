package bridgetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A2AAgent is an external A2A agent on the server of the official SDK. A test decides how it treats
// each task.
type A2AAgent struct {
	*httptest.Server

	// Before and After are called with the method of each JSONRPC or GRPC call, before the agent
	// receives it and after it has answered. They may be nil. Their error breaks the connection, or
	// over GRPC the call.
	Before, After func(method string) error
	// Card changes the card before it is served; it may be nil.
	Card func(card map[string]any)

	mu      sync.Mutex
	tasks   map[wire.TaskID]*A2ATask
	order   []*A2ATask
	calls   map[string]int
	answers []string // to messages that need no task
}

// A2ATask is a task of an [A2AAgent].
type A2ATask struct {
	ID       wire.TaskID
	Context  string
	Messages []*wire.Message

	updates chan wire.Event
}

// NewA2AAgent serves an agent until the test ends. The interface is JSONRPC, HTTP+JSON or GRPC of a
// version of the protocol.
func NewA2AAgent(tb testing.TB, binding wire.TransportProtocol, version wire.ProtocolVersion, streaming bool) *A2AAgent {
	tb.Helper()
	a := &A2AAgent{tasks: map[wire.TaskID]*A2ATask{}, calls: map[string]int{}}
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: func(context.Context) (string, error) { return "gateway", nil }})
	handler := a2asrv.NewHandler(a, a2asrv.WithTaskStore(store), a2asrv.WithCapabilityChecks(&wire.AgentCapabilities{Streaming: streaming}))
	mux := http.NewServeMux()
	var base, over string
	switch {
	case binding == wire.TransportProtocolGRPC:
		over = ServeGRPC(tb, func(s *grpc.Server) {
			if version == a2av0.Version {
				grpcv0.NewHandler(handler).RegisterWith(s)
				return
			}
			grpcv1.NewHandler(handler).RegisterWith(s)
		}, grpc.UnaryInterceptor(a.watchedGRPC))
	case binding == wire.TransportProtocolHTTPJSON && version == a2av0.Version:
		mux.Handle("/rest/", http.StripPrefix("/rest", a2av0.NewRESTHandler(handler)))
		base = "/rest"
	case binding == wire.TransportProtocolHTTPJSON:
		mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
		base = "/rest"
	case version == a2av0.Version:
		mux.Handle("POST /rpc", a.watched(a2av0.NewJSONRPCHandler(handler)))
		base = "/rpc"
	default:
		mux.Handle("POST /rpc", a.watched(a2asrv.NewJSONRPCHandler(handler)))
		base = "/rpc"
	}
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		a.serveCard(w, cmp.Or(over, a.URL+base), binding, version, streaming)
	})
	a.Server = httptest.NewServer(mux)
	tb.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

func (a *A2AAgent) serveCard(w http.ResponseWriter, address string, binding wire.TransportProtocol, version wire.ProtocolVersion, streaming bool) {
	card := map[string]any{
		"name": "Researcher", "description": "Finds sources", "version": "1.2", "capabilities": map[string]any{"streaming": streaming},
		"defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
		"skills": []any{map[string]any{"id": "cite", "name": "Cite", "description": "Cites", "tags": []string{"cite"}}},
		// A valid card of 1.0, whose requirements the SDK's parser cannot read.
		"securityRequirements": []any{map[string]any{"schemes": map[string]any{"token": map[string]any{"list": []string{}}}}},
		"securitySchemes":      map[string]any{"token": map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}}},
	}
	if version == a2av0.Version {
		card["url"], card["preferredTransport"], card["protocolVersion"] = address, binding, "0.3.0"
		card["securitySchemes"] = map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}}
		delete(card, "securityRequirements")
	} else {
		card["supportedInterfaces"] = []any{map[string]any{"url": address, "protocolBinding": binding, "protocolVersion": version}}
	}
	if a.Card != nil {
		a.Card(card)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(card) //nolint:errchkjson // the client may be gone
}

func (a *A2AAgent) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var call struct {
			Method string `json:"method"`
		}
		if err == nil {
			err = json.Unmarshal(body, &call)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.note(call.Method)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if a.Before != nil && a.Before(call.Method) != nil {
			panic(http.ErrAbortHandler)
		}
		if a.After == nil || strings.Contains(call.Method, "Stream") || strings.Contains(call.Method, "Subscribe") {
			next.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		if a.After(call.Method) != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", recorded.Header().Get("Content-Type"))
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes()) // the client may be gone
	})
}

func (a *A2AAgent) note(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[method]++
}

func (a *A2AAgent) watchedGRPC(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	a.note(method)
	broken := status.Error(codes.Unavailable, ErrBreak.Error())
	if a.Before != nil && a.Before(method) != nil {
		return nil, broken
	}
	answer, err := next(ctx, request)
	if a.After != nil && a.After(method) != nil {
		return nil, broken
	}
	return answer, err
}

// ServeGRPC serves gRPC on loopback until the test ends, and returns the URL.
func ServeGRPC(tb testing.TB, register func(*grpc.Server), options ...grpc.ServerOption) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(options...)
	register(server)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	tb.Cleanup(server.Stop)
	return "http://" + listener.Addr().String()
}

// Calls returns the number of JSONRPC and GRPC calls of a method.
func (a *A2AAgent) Calls(method string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[method]
}

// AnswerWithout makes the agent answer messages with this text and no task.
func (a *A2AAgent) AnswerWithout(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = append(a.answers, text)
}

// Tasks returns the tasks created by the agent, in order.
func (a *A2AAgent) Tasks() []*A2ATask {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*A2ATask(nil), a.order...)
}

// Texts returns the texts of the messages that a task has received.
func (a *A2AAgent) Texts(t *A2ATask) (texts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range t.Messages {
		texts = append(texts, m.Parts[0].Text())
	}
	return texts
}

// Say puts a task into a state, with a text.
func (t *A2ATask) Say(state wire.TaskState, text string) {
	var m *wire.Message
	if text != "" {
		m = wire.NewMessage(wire.MessageRoleAgent, wire.NewTextPart(text))
	}
	t.updates <- wire.NewStatusUpdateEvent(wire.TaskInfo{TaskID: t.ID, ContextID: t.Context}, state, m)
}

// Produce adds an artifact to a task.
func (t *A2ATask) Produce(parts ...*wire.Part) {
	t.updates <- wire.NewArtifactEvent(wire.TaskInfo{TaskID: t.ID, ContextID: t.Context}, parts...)
}

// Execute implements [a2asrv.AgentExecutor].
func (a *A2AAgent) Execute(ctx context.Context, got *a2asrv.ExecutorContext) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		a.mu.Lock()
		for _, text := range a.answers {
			if got.Message.Parts[0].Text() == text {
				a.mu.Unlock()
				yield(wire.NewMessage(wire.MessageRoleAgent, wire.NewTextPart("answer to "+text)), nil)
				return
			}
		}
		t := a.tasks[got.TaskID]
		known := t != nil
		if !known {
			t = &A2ATask{ID: got.TaskID, Context: got.ContextID, updates: make(chan wire.Event, 16)}
			a.tasks[t.ID], a.order = t, append(a.order, t)
		}
		t.Messages = append(t.Messages, got.Message)
		a.mu.Unlock()
		if !known && !yield(wire.NewSubmittedTask(got, got.Message), nil) {
			return
		}
		for {
			select {
			case update := <-t.updates:
				status, isStatus := update.(*wire.TaskStatusUpdateEvent)
				if !yield(update, nil) || isStatus && (status.Status.State.Terminal() || status.Status.State == wire.TaskStateInputRequired) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// Cancel implements [a2asrv.AgentExecutor].
func (*A2AAgent) Cancel(_ context.Context, got *a2asrv.ExecutorContext) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		yield(wire.NewStatusUpdateEvent(got, wire.TaskStateCanceled, nil), nil)
	}
}

// ErrBreak breaks the connection if Before or After of an [A2AAgent] returns it.
var ErrBreak = errors.New("break the connection")

// Task returns the n-th task, from 0, or nil if the agent has not created it.
func (a *A2AAgent) Task(n int) *A2ATask {
	if all := a.Tasks(); n < len(all) {
		return all[n]
	}
	return nil
}

// String implements [fmt.Stringer].
func (t *A2ATask) String() string { return fmt.Sprintf("task %s of %s", t.ID, t.Context) }
