package a2aclient_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
)

// grpcLiar is a liar that sends its answers over gRPC.
func grpcLiar(t *testing.T, card map[string]any, answer answer) *httptest.Server {
	t.Helper()
	return grpcAgent(t, card, &grpcAnswers{answer: answer})
}

// grpcAgent serves a service, and its card over HTTP.
func grpcAgent(t *testing.T, card map[string]any, service *grpcAnswers, options ...grpc.ServerOption) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	address := bridgetest.ServeGRPC(t, func(s *grpc.Server) { a2apb.RegisterA2AServiceServer(s, service) }, options...)
	if len(options) > 0 { // with TLS
		address = strings.Replace(address, "http:", "https:", 1)
	}
	serveCard(mux, card, wire.TransportProtocolGRPC, address)
	return server
}

// grpcAnswers is a service with the answers of JSON-RPC. An answer that protocol buffers cannot have, such
// as one with a repeated member, fails.
type grpcAnswers struct {
	a2apb.UnimplementedA2AServiceServer

	answer answer
	header metadata.MD // of the last message
}

func (g *grpcAnswers) call(method string, into proto.Message) error {
	recorded := httptest.NewRecorder()
	g.answer(recorded, method, "1")
	return parseAnswer(recorded.Body.Bytes(), into)
}

func parseAnswer(text []byte, into proto.Message) error {
	var got struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	if got.Error != nil {
		return status.Error(codes.Unimplemented, got.Error.Message)
	}
	return protojson.Unmarshal(got.Result, into)
}

// SendMessage implements [a2apb.A2AServiceServer].
func (g *grpcAnswers) SendMessage(ctx context.Context, _ *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	g.header, _ = metadata.FromIncomingContext(ctx)
	var made a2apb.SendMessageResponse
	err := g.call("SendMessage", &made)
	return &made, err
}

// GetTask implements [a2apb.A2AServiceServer].
func (g *grpcAnswers) GetTask(context.Context, *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	var task a2apb.Task
	err := g.call("GetTask", &task)
	return &task, err
}

// SubscribeToTask implements [a2apb.A2AServiceServer].
func (g *grpcAnswers) SubscribeToTask(_ *a2apb.SubscribeToTaskRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	g.answer(&eventWriter{ResponseRecorder: httptest.NewRecorder(), stream: stream}, "SubscribeToTask", "1")
	return nil
}

// eventWriter sends each event of an event stream over gRPC.
type eventWriter struct {
	*httptest.ResponseRecorder

	stream grpc.ServerStreamingServer[a2apb.StreamResponse]
}

// Write implements [io.Writer].
func (w *eventWriter) Write(text []byte) (int, error) {
	var event a2apb.StreamResponse
	if err := parseAnswer(bytes.TrimPrefix(text, []byte("data: ")), &event); err != nil {
		return 0, err
	}
	return len(text), w.stream.Send(&event)
}

var _ io.Writer = (*eventWriter)(nil)

// An agent over gRPC gets the credentials of the configuration as metadata.
func TestRunSendsCredentialsOverGRPC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme     map[string]any
		key, value string
	}{
		"bearer": {map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}}, "authorization", "Bearer ada:secret"},
		"header": {map[string]any{"apiKeySecurityScheme": map[string]any{"location": "header", "name": "X-Key"}}, "x-key", "ada:secret"},
		"query":  {map[string]any{"apiKeySecurityScheme": map[string]any{"location": "query", "name": "key"}}, "", "the card wants an API key in the query"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &grpcAnswers{answer: func(w http.ResponseWriter, _ string, id any) {
				result(w, id, map[string]any{"task": taskOf("t1", wire.TaskStateSubmitted)})
			}}
			agent := grpcAgent(t, map[string]any{"securitySchemes": map[string]any{"s": c.scheme}}, service)
			w := newWorld(t, agent.URL)
			w.ports.Secrets = bridgetest.Secrets{"token": "ada:secret"}
			w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"any"}, CredentialsFile: "token"})
			w.run(t)
			err := w.link.Deliver(t.Context(), w.offer(t, "x"))
			switch {
			case c.key == "" && (err == nil || !strings.Contains(err.Error(), c.value)):
				t.Errorf("the delivery ends with %v", err)
			case c.key != "" && (err != nil || strings.Join(service.header.Get(c.key), " ") != c.value):
				t.Errorf("the agent got %v, %v", service.header, err)
			}
		})
	}
}

// The guard of HTTP holds for gRPC too: the addresses, and TLS.
func TestDeliverCallsNoPrivateAddressOverGRPC(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 1)
	address := bridgetest.ServeGRPC(t, func(s *grpc.Server) {
		a2apb.RegisterA2AServiceServer(s, &grpcAnswers{answer: func(http.ResponseWriter, string, any) { called <- struct{}{} }})
	})
	for card, want := range map[string]string{
		address: "want https, or allow_private",
		strings.Replace(address, "http:", "https:", 1): "address not allowed",
		"gopher://agents.example":                      "want https, http, grpcs or grpc",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			serveCard(mux, nil, wire.TransportProtocolGRPC, card)
			w := newWorld(t, "https://agents.example")
			w.deps.Transport = func(private bool) *http.Transport { // the card is at a public address
				guarded := identity.NewTransport(identity.FetchConfig{AllowPrivate: private})
				guarded.RegisterProtocol("https", handled{mux})
				return guarded
			}
			w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: "https://agents.example", OfferFrom: []string{"any"}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := w.link.Run(ctx, cancel)
			if errors.Is(err, context.Canceled) {
				err = w.link.Deliver(t.Context(), w.offer(t, "x"))
			}
			if err == nil || !strings.Contains(err.Error(), want) || len(called) > 0 {
				t.Errorf("the call ends with %v", err)
			}
		})
	}
}

// handled answers requests by a handler in this process.
type handled struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	recorded := httptest.NewRecorder()
	h.ServeHTTP(recorded, r)
	return recorded.Result(), nil
}

func TestDeliverSendsOverGRPCWithTLS(t *testing.T) {
	t.Parallel()
	authority := httptest.NewTLSServer(nil) // only its certificate is used
	t.Cleanup(authority.Close)
	service := &grpcAnswers{answer: func(w http.ResponseWriter, _ string, id any) {
		result(w, id, map[string]any{"task": taskOf("t1", wire.TaskStateSubmitted)})
	}}
	agent := grpcAgent(t, nil, service, grpc.Creds(credentials.NewServerTLSFromCert(&authority.TLS.Certificates[0])))
	for trusted, roots := range map[bool]*tls.Config{true: authority.Client().Transport.(*http.Transport).TLSClientConfig, false: {MinVersion: tls.VersionTLS12}} { //nolint:forcetypeassert // of httptest
		w := newWorld(t, agent.URL)
		w.deps.Transport = func(private bool) *http.Transport {
			return identity.NewTransport(identity.FetchConfig{AllowPrivate: private, TLS: roots})
		}
		w.link = w.open(t, a2aclient.Config{Name: "researcher", Card: agent.URL, AllowPrivate: true, OfferFrom: []string{"any"}})
		w.run(t)
		if err := w.link.Deliver(t.Context(), w.offer(t, "x")); (err == nil) != trusted {
			t.Errorf("with a trusted certificate %t the delivery ends with %v", trusted, err)
		}
	}
}

// A failed call ends the session, so that the link is not shown as up.
func TestRunEndsWhenTheAgentDoesNotAnswerOverGRPC(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	serveCard(mux, nil, wire.TransportProtocolGRPC, "http://"+federationtest.FreeAddr(t))
	agent := httptest.NewServer(mux)
	t.Cleanup(agent.Close)
	w := newWorld(t, agent.URL)
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.link.Run(t.Context(), func() { close(up) }) }()
	<-up
	err := w.link.Deliver(t.Context(), w.offer(t, "x"))
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		t.Errorf("the delivery ends with %v", err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the agent does not answer") {
		t.Errorf("the link ends with %v", err)
	}
}
