package bridgetest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// MACPClient is a participant of a MACP runtime, over gRPC without TLS.
type MACPClient struct {
	Name    string
	address string
	token   string
	client  *http.Client
}

// NewMACPClient returns a participant with a token at the address of a runtime. The caller closes
// it.
func NewMACPClient(address, name, token string) *MACPClient {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &MACPClient{Name: name, address: address, token: token, client: &http.Client{Transport: &http.Transport{Protocols: protocols}}}
}

// Close closes the connections.
func (c *MACPClient) Close() { c.client.CloseIdleConnections() }

func (c *MACPClient) method(name string) string {
	return "http://" + c.address + "/macp.v1.MACPRuntimeService/" + name
}

// MACPCall makes a unary call.
func MACPCall[Req, Res any](ctx context.Context, c *MACPClient, method string, req *Req) (*Res, error) {
	request := connect.NewRequest(req)
	request.Header().Set("Authorization", "Bearer "+c.token)
	answer, err := connect.NewClient[Req, Res](c.client, c.method(method), connect.WithGRPC()).CallUnary(ctx, request)
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

// Envelope returns a message of a session, or a signal without a session.
func (c *MACPClient) Envelope(session, kind, id string, payload proto.Message) (*macpv1.Envelope, error) {
	text, err := proto.Marshal(payload)
	env := &macpv1.Envelope{MacpVersion: macpmode.Version, MessageType: kind, MessageId: id, Sender: c.Name, TimestampUnixMs: time.Now().UnixMilli(), Payload: text}
	if kind != macpmode.TypeSignal {
		env.Mode, env.SessionId = macpmode.Mode, session
	}
	return env, err
}

// Send sends a message of the handoff mode, or a signal, and returns the acknowledgement.
func (c *MACPClient) Send(ctx context.Context, session, kind, id string, payload proto.Message) (*macpv1.Ack, error) {
	env, err := c.Envelope(session, kind, id, payload)
	if err != nil {
		return nil, err
	}
	return c.SendEnvelope(ctx, env)
}

// SendEnvelope sends an envelope and returns the acknowledgement.
func (c *MACPClient) SendEnvelope(ctx context.Context, env *macpv1.Envelope) (*macpv1.Ack, error) {
	answer, err := MACPCall[macpv1.SendRequest, macpv1.SendResponse](ctx, c, "Send", &macpv1.SendRequest{Envelope: env})
	return answer.GetAck(), err
}

// Start starts a session with the given participants.
func (c *MACPClient) Start(ctx context.Context, session, intent string, participants ...string) error {
	ack, err := c.Send(ctx, session, macpmode.TypeSessionStart, "start", &macpv1.SessionStartPayload{
		Intent: intent, Participants: participants, ModeVersion: macpmode.ModeVersion, ConfigurationVersion: "test", TtlMs: 600_000,
	})
	if err == nil && !ack.GetOk() {
		err = fmt.Errorf("start of %s: %v", session, ack.GetError())
	}
	return err
}

// Follow calls see for each envelope of a session after the given number, until see returns false.
func (c *MACPClient) Follow(ctx context.Context, session string, after uint64, see func(*macpv1.Envelope) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := connect.NewClient[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse](c.client, c.method("StreamSession"), connect.WithGRPC()).CallBidiStream(ctx)
	stream.RequestHeader().Set("Authorization", "Bearer "+c.token)
	if err := stream.Send(&macpv1.StreamSessionRequest{SubscribeSessionId: session, AfterSequence: after}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.CloseRequest() }) // so that the transport notices the end of ctx
	defer stop()
	defer func() { _ = stream.CloseResponse() }()
	defer cancel()
	for {
		frame, err := stream.Receive()
		if err != nil {
			return err
		}
		if !see(frame.GetEnvelope()) {
			return nil
		}
	}
}

// MACPWatch calls see for each message of a stream such as WatchSignals, until see returns false.
// It calls up once the runtime has answered.
func MACPWatch[Req, Res any](ctx context.Context, c *MACPClient, method string, up func(), see func(*Res) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := connect.NewRequest(new(Req))
	request.Header().Set("Authorization", "Bearer "+c.token)
	stream, err := connect.NewClient[Req, Res](c.client, c.method(method), connect.WithGRPC()).CallServerStream(ctx, request)
	if err != nil {
		return err
	}
	_ = stream.ResponseHeader() // it waits for the answer
	up()
	defer func() { _ = stream.Close() }()
	defer cancel()
	for stream.Receive() {
		if !see(stream.Msg()) {
			return nil
		}
	}
	return stream.Err()
}
