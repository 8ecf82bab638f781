package a2aclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/a2atask"
)

// The outbox also waits during the reconnect backoff.
const maxRedial = 10 * time.Second

// grpcConn is the gRPC connection to an agent. The zero value has none.
type grpcConn struct {
	mu      sync.Mutex
	address string
	conn    *grpc.ClientConn
}

func (l *Link) grpcTransports() []a2aclient.FactoryOption {
	over := func(transport func(*grpc.ClientConn) a2aclient.Transport) a2aclient.TransportFactory {
		return a2aclient.TransportFactoryFn(func(_ context.Context, _ *wire.AgentCard, at *wire.AgentInterface) (a2aclient.Transport, error) {
			conn, err := l.connect(at.URL)
			if err != nil {
				return nil, err
			}
			return protoTransport{transport(conn)}, nil
		})
	}
	return []a2aclient.FactoryOption{
		a2aclient.WithTransport(wire.TransportProtocolGRPC, over(grpcv1.NewGRPCTransport)),
		a2aclient.WithCompatTransport(a2av0.Version, wire.TransportProtocolGRPC, over(grpcv0.NewGRPCTransport)),
	}
}

type protoTransport struct{ a2aclient.Transport }

// SendMessage implements [a2aclient.Transport].
func (t protoTransport) SendMessage(ctx context.Context, params a2aclient.ServiceParams, request *wire.SendMessageRequest) (wire.SendMessageResult, error) { //nolint:ireturn // the library requires an interface
	carried := *request
	carried.Message = a2atask.ForProto(*request.Message)
	return t.Transport.SendMessage(ctx, params, &carried)
}

// connect keeps the connection of a reread card if the address is unchanged. The first call dials.
func (l *Link) connect(address string) (*grpc.ClientConn, error) {
	host, plain, err := grpcHost(address)
	if err == nil {
		err = l.checkTLS(host, plain)
	}
	if err != nil {
		return nil, err
	}
	l.grpc.mu.Lock()
	defer l.grpc.mu.Unlock()
	if l.grpc.conn != nil && l.grpc.address == address {
		return l.grpc.conn, nil
	}
	l.grpc.retire()
	guarded := l.deps.Transport(l.cfg.AllowPrivate).Clone()
	security := insecure.NewCredentials()
	if !plain {
		security = credentials.NewTLS(guarded.TLSClientConfig)
	}
	wait := backoff.DefaultConfig
	wait.MaxDelay = maxRedial
	l.grpc.conn, err = grpc.NewClient("passthrough:///"+host,
		grpc.WithTransportCredentials(security), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return guarded.DialContext(ctx, "tcp", address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)), grpc.WithMaxHeaderListSize(uint32(guarded.MaxResponseHeaderBytes)), //nolint:gosec // G115: a small constant
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: callTimeout}),
		grpc.WithUnaryInterceptor(l.callGRPC), grpc.WithStreamInterceptor(l.streamGRPC))
	l.grpc.address = address
	return l.grpc.conn, err
}

func (l *Link) hangUp() {
	l.grpc.mu.Lock()
	defer l.grpc.mu.Unlock()
	l.grpc.retire()
}

// retire closes the connection after the calls in flight have ended.
func (c *grpcConn) retire() {
	if old := c.conn; old != nil {
		time.AfterFunc(sendTimeout, func() { _ = old.Close() }) // fails only if already closed
	}
	c.conn = nil
}

// grpcHost reads a URL, or a host and port as accepted by gRPC libraries. The latter omits TLS only on the
// loopback.
func grpcHost(address string) (host string, plain bool, err error) {
	bare := !strings.Contains(address, "://")
	if bare {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", false, fmt.Errorf("want a URL or HOST:PORT for the interface GRPC, not %q", address)
	}
	port := "443"
	switch u.Scheme {
	case "https", "grpcs":
		plain = bare && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	case "http", "grpc":
		port, plain = "80", true
	default:
		return "", false, fmt.Errorf("want https, http, grpcs or grpc for the interface GRPC, not %q", u.Scheme)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port), plain, nil
}

// callGRPC adds credentials to a call. It implements [grpc.UnaryClientInterceptor].
func (l *Link) callGRPC(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, err := l.authorizeGRPC(ctx)
	if err != nil {
		return err
	}
	var at peer.Peer
	err = grpcError(invoke(ctx, method, request, answer, conn, append(options, grpc.Peer(&at))...), at.Addr != nil)
	if isNetwork(err) {
		l.recordOutcome(ctx, err)
	} else {
		l.recordOutcome(ctx, nil)
	}
	return err
}

// streamGRPC adds credentials to a stream and bounds it. It implements [grpc.StreamClientInterceptor].
func (l *Link) streamGRPC(ctx context.Context, kind *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) { //nolint:ireturn // the library requires an interface
	ctx, err := l.authorizeGRPC(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := open(ctx, kind, conn, method, options...)
	if err != nil {
		cancel()
		return nil, grpcError(err, false)
	}
	return &boundedStream{ClientStream: stream, cancel: cancel, left: maxStreamBytes}, nil
}

type boundedStream struct {
	grpc.ClientStream

	cancel context.CancelFunc
	left   int // bytes
}

// RecvMsg implements [grpc.ClientStream].
func (s *boundedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if message, ok := m.(proto.Message); ok && err == nil {
		if s.left -= proto.Size(message); s.left < 0 {
			err = io.EOF
		}
	}
	if err != nil {
		s.cancel()
	}
	return err
}

func (l *Link) authorizeGRPC(ctx context.Context) (context.Context, error) {
	r := (&http.Request{URL: &url.URL{}, Header: http.Header{}}).WithContext(ctx)
	if err := l.authorize(r); err != nil {
		return nil, err
	}
	if r.URL.RawQuery != "" {
		return nil, errors.New("the card wants an API key in the query, which gRPC does not have")
	}
	var fields []string
	for name, values := range r.Header {
		fields = append(fields, strings.ToLower(name), values[0])
	}
	return metadata.AppendToOutgoingContext(ctx, fields...), nil
}

// grpcError converts the codes that the library does not. If connected is false, the agent has not received
// the call.
func grpcError(err error, connected bool) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := errors.New(s.Message())
	switch {
	case s.Code() == codes.Unavailable && !connected:
		return &net.OpError{Op: "dial", Net: "grpc", Err: text}
	case s.Code() == codes.Unavailable:
		return &net.OpError{Op: "call", Net: "grpc", Err: text}
	case s.Code() == codes.Unimplemented:
		return wire.NewError(wire.ErrMethodNotFound, s.Message())
	case s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "larger than max"): // from the library
		return errTooLarge
	case s.Code() == codes.ResourceExhausted:
		return &statusError{code: http.StatusTooManyRequests}
	}
	return err
}
