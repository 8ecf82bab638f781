package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/baton-gateway/baton/federation"
)

const legacyVersion = "0.3"

// isLegacy requires both the version and the method name of A2A 0.3.
func isLegacy(version, method string) bool {
	return (version == "" || version == legacyVersion || strings.HasPrefix(version, legacyVersion+".")) && strings.Contains(method, "/")
}

// serveLegacy relies on an earlier check of the body for duplicate members.
func (l *Link) serveLegacy(w http.ResponseWriter, r *http.Request, req request) {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(req.body))
	a2av0.NewJSONRPCHandler(legacy{l, req}, a2asrv.WithTransportKeepAlive(heartbeat)).ServeHTTP(w, r)
}

type legacy struct {
	link *Link
	req  request
}

var _ a2asrv.RequestHandler = legacy{}

func legacyCall[T any](ctx context.Context, h legacy, method string, params any) (T, error) {
	var result T
	text, err := json.Marshal(params)
	if err != nil {
		return result, fmt.Errorf("write parameters: %w", err)
	}
	h.req.Method, h.req.Params = method, text
	answer, err := h.link.call(ctx, h.req)
	if err != nil {
		return result, h.legacyError(ctx, err)
	}
	if text, err = json.Marshal(answer); err != nil {
		return result, fmt.Errorf("write result: %w", err)
	}
	if err := federation.DecodeJSON(text, &result); err != nil {
		return result, fmt.Errorf("read result: %w", err)
	}
	h.link.noteRead(ctx, h.req.caller.DID, stepsIn(answer)...)
	return result, nil
}

func (h legacy) legacyError(ctx context.Context, err error) error {
	answer := h.link.errorOf(ctx, h.req, err)
	kind := wire.ErrInternalError
	switch answer.Code {
	case codeInvalidParams:
		kind = wire.ErrInvalidParams
	case codeInvalidRequest:
		kind = wire.ErrInvalidRequest
	case codeTaskNotFound:
		kind = wire.ErrTaskNotFound
	case codeNotCancelable:
		kind = wire.ErrTaskNotCancelable
	case codeNoPush:
		kind = wire.ErrPushNotificationNotSupported
	case codeUnsupported:
		kind = wire.ErrUnsupportedOperation
	case codeContentType:
		kind = wire.ErrUnsupportedContentType
	}
	return wire.NewError(kind, answer.Message)
}

// GetTask implements [a2asrv.RequestHandler].
func (h legacy) GetTask(ctx context.Context, p *wire.GetTaskRequest) (*wire.Task, error) {
	return legacyCall[*wire.Task](ctx, h, methodGet, p)
}

// ListTasks implements [a2asrv.RequestHandler]. Version 0.3 has no lists.
func (legacy) ListTasks(context.Context, *wire.ListTasksRequest) (*wire.ListTasksResponse, error) {
	return nil, wire.ErrUnsupportedOperation
}

// CancelTask implements [a2asrv.RequestHandler].
func (h legacy) CancelTask(ctx context.Context, p *wire.CancelTaskRequest) (*wire.Task, error) {
	return legacyCall[*wire.Task](ctx, h, methodCancel, p)
}

// SendMessage implements [a2asrv.RequestHandler].
func (h legacy) SendMessage(ctx context.Context, p *wire.SendMessageRequest) (wire.SendMessageResult, error) { //nolint:ireturn // the library requires an interface
	if p.Config != nil && p.Config.PushConfig != nil {
		return nil, errNoLegacyPush()
	}
	sent, err := legacyCall[struct {
		Task *wire.Task `json:"task"`
	}](ctx, h, methodSend, p)
	return sent.Task, err
}

// SendStreamingMessage implements [a2asrv.RequestHandler].
func (h legacy) SendStreamingMessage(ctx context.Context, p *wire.SendMessageRequest) iter.Seq2[wire.Event, error] {
	if p.Config != nil && p.Config.PushConfig != nil {
		return func(yield func(wire.Event, error) bool) { yield(nil, errNoLegacyPush()) }
	}
	return h.stream(ctx, methodStream, p)
}

// SubscribeToTask implements [a2asrv.RequestHandler].
func (h legacy) SubscribeToTask(ctx context.Context, p *wire.SubscribeToTaskRequest) iter.Seq2[wire.Event, error] {
	return h.stream(ctx, methodSubscribe, p)
}

var errLegacyLeft = errors.New("the stream is left")

func (h legacy) stream(ctx context.Context, method string, params any) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		text, err := json.Marshal(params)
		if err != nil {
			yield(nil, err)
			return
		}
		h.req.Method, h.req.Params = method, text
		f, err := h.link.streamed(ctx, h.req)
		if err == nil {
			err = h.link.attend(ctx, h.req, f, func(u update) error {
				event, err := eventOf(u)
				if err == nil && !yield(event, nil) {
					return &leftError{errLegacyLeft}
				}
				return err
			}, func() error { return h.link.stillAllowed(ctx, h.req) })
		}
		if err != nil {
			yield(nil, h.legacyError(ctx, err))
		}
	}
}

func eventOf(u update) (wire.Event, error) { //nolint:ireturn // the library requires an interface
	text, err := json.Marshal(u)
	if err != nil {
		return nil, fmt.Errorf("write event: %w", err)
	}
	var event wire.StreamResponse
	if err := federation.DecodeJSON(text, &event); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	return event.Event, nil
}

// errNoLegacyPush refuses 0.3 clients, because push bodies have the form of 1.0.
func errNoLegacyPush() error {
	return wire.NewError(wire.ErrPushNotificationNotSupported, "push notifications need A2A 1.0; subscribe or poll")
}

// GetTaskPushConfig implements [a2asrv.RequestHandler].
func (legacy) GetTaskPushConfig(context.Context, *wire.GetTaskPushConfigRequest) (*wire.PushConfig, error) {
	return nil, errNoLegacyPush()
}

// ListTaskPushConfigs implements [a2asrv.RequestHandler].
func (legacy) ListTaskPushConfigs(context.Context, *wire.ListTaskPushConfigRequest) (*wire.ListTaskPushConfigResponse, error) {
	return nil, errNoLegacyPush()
}

// CreateTaskPushConfig implements [a2asrv.RequestHandler].
func (legacy) CreateTaskPushConfig(context.Context, *wire.PushConfig) (*wire.PushConfig, error) {
	return nil, errNoLegacyPush()
}

// DeleteTaskPushConfig implements [a2asrv.RequestHandler].
func (legacy) DeleteTaskPushConfig(context.Context, *wire.DeleteTaskPushConfigRequest) error {
	return errNoLegacyPush()
}

// GetExtendedAgentCard implements [a2asrv.RequestHandler].
func (legacy) GetExtendedAgentCard(context.Context, *wire.GetExtendedAgentCardRequest) (*wire.AgentCard, error) {
	return nil, wire.ErrExtendedCardNotConfigured
}

const legacyCardPath = "/.well-known/agent.json"

// withLegacyMembers adds unsigned members that 0.3 clients need.
func (l *Link) withLegacyMembers(signed []byte, of resident) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(signed, &members); err != nil {
		return nil, fmt.Errorf("read card: %w", err)
	}
	flows := map[string]any{"clientCredentials": map[string]any{"tokenUrl": l.deps.PublicURL + "/oauth/token", "scopes": map[string]string{handoffsScope: handoffsPurpose}}}
	for name, member := range map[string]any{
		"url": l.endpoint(of.did), "preferredTransport": wire.TransportProtocolJSONRPC, "protocolVersion": "0.3.0",
		"additionalInterfaces": []any{map[string]any{"url": l.endpoint(of.did), "transport": wire.TransportProtocolJSONRPC}},
		"securitySchemes": map[string]any{
			"did":   map[string]any{"type": "http", "scheme": "Bearer", "httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}},
			"oauth": map[string]any{"type": "oauth2", "flows": flows, "oauth2SecurityScheme": map[string]any{"flows": flows}},
		},
	} {
		text, err := json.Marshal(member)
		if err != nil {
			return nil, fmt.Errorf("write card: %w", err)
		}
		members[name] = text
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("write card: %w", err)
	}
	return append(text, '\n'), nil
}
