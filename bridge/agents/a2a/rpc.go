package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

const rpcVersion = "2.0"

// spec: a2a-1.0 §9.4
const (
	methodSend         = "SendMessage"
	methodStream       = "SendStreamingMessage"
	methodGet          = "GetTask"
	methodList         = "ListTasks"
	methodCancel       = "CancelTask"
	methodSubscribe    = "SubscribeToTask"
	methodPushCreate   = "CreateTaskPushNotificationConfig"
	methodPushGet      = "GetTaskPushNotificationConfig"
	methodPushList     = "ListTaskPushNotificationConfigs"
	methodPushDelete   = "DeleteTaskPushNotificationConfig"
	methodExtendedCard = "GetExtendedAgentCard"
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`

	caller participant.Caller
	bearer string
	agent  federation.DID // "" for the gateway
	media  string         // of the response
	rest   bool
	events bool
	legacy bool
	body   []byte // of a legacy request
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// serveRPC serves the endpoint of the gateway if agent is "".
func (l *Link) serveRPC(w http.ResponseWriter, r *http.Request, agent federation.DID) {
	caller, ok := l.admit(w, r, agent)
	if !ok {
		return
	}
	req, err := l.parse(r)
	req.caller, req.bearer, req.agent = caller, r.Header.Get("Authorization"), agent
	req.media, req.events = mediaOf(r), strings.Contains(r.Header.Get("Accept"), eventStream)
	if err != nil {
		l.reply(r.Context(), w, req, nil, err)
		return
	}
	ctx := bridge.WithSubnet(r.Context(), credential.AddressOf(r))
	if req.legacy {
		l.serveLegacy(w, r.WithContext(ctx), req)
		return
	}
	switch req.Method {
	case methodStream, methodSubscribe:
		l.serveStream(ctx, w, req)
	default:
		result, err := l.call(ctx, req)
		if l.reply(ctx, w, req, result, err) {
			l.noteRead(ctx, caller.DID, stepsIn(result)...)
		}
	}
}

// admit has answered the request if it returns false.
func (l *Link) admit(w http.ResponseWriter, r *http.Request, agent federation.DID) (participant.Caller, bool) {
	err := l.access.CheckAddress(r)
	var caller participant.Caller
	if err == nil {
		caller, err = l.authenticate(r)
	}
	if err == nil && agent != "" {
		_, err = l.resident(r.Context(), agent)
	}
	if err != nil {
		l.deny(w, r, err)
	}
	return caller, err == nil
}

func (l *Link) call(ctx context.Context, req request) (any, error) {
	switch req.Method {
	case methodSend:
		return l.sendMessage(ctx, req)
	case methodGet:
		return l.getTask(ctx, req)
	case methodList:
		return l.listTasks(ctx, req)
	case methodCancel:
		return l.cancelTask(ctx, req)
	case methodPushCreate:
		return l.createPush(ctx, req)
	case methodPushGet:
		return l.getPush(ctx, req)
	case methodPushList:
		return l.listPushes(ctx, req)
	case methodPushDelete:
		return l.deletePush(ctx, req)
	case methodExtendedCard:
		return nil, fault(codeUnsupported, "the card has no extended form")
	}
	return nil, fault(codeMethodNotFound, "there is no method "+req.Method)
}

// parse returns the ID too if it rejects the request after reading it.
func (l *Link) parse(r *http.Request) (request, error) {
	var req request
	body, err := io.ReadAll(io.LimitReader(r.Body, l.deps.HTTP.MaxBodyBytes+1))
	switch {
	case err != nil:
		return req, fault(codeParse, "the body ended too early")
	case int64(len(body)) > l.deps.HTTP.MaxBodyBytes:
		return req, fault(codeInvalidRequest, fmt.Sprintf("a body is at most %d bytes", l.deps.HTTP.MaxBodyBytes))
	}
	if err := checkType(r); err != nil {
		return req, err
	}
	if err := federation.ExactJSON(body); err != nil {
		return req, fault(codeParse, "the body is not acceptable JSON: "+err.Error())
	}
	var envelope struct {
		request

		Version any `json:"jsonrpc"`
		Method  any `json:"method"`
	}
	if err := federation.DecodeJSON(body, &envelope); err != nil {
		return req, fault(codeInvalidRequest, "want one JSON-RPC request")
	}
	req = envelope.request
	method, isText := envelope.Method.(string)
	req.Method = method
	switch {
	case !validID(req.ID):
		req.ID = nil
		return req, fault(codeInvalidRequest, "id: want a string or a number")
	case envelope.Version != rpcVersion:
		return req, fault(codeInvalidRequest, `jsonrpc: want "2.0"`)
	case !isText || method == "":
		return req, fault(codeInvalidRequest, "method: want the name of one")
	}
	if isLegacy(versionOf(r), method) {
		req.legacy, req.body = true, body
		return req, nil
	}
	if err := checkVersion(r); err != nil {
		return req, err
	}
	if len(req.Params) > 0 {
		req.Params, err = withJSONNames(req.Params)
	}
	return req, err
}

func checkType(r *http.Request) error {
	named := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(named)
	if named != "" && (err != nil || media != mediaJSON && media != mediaA2A) {
		return fault(codeContentType, "the body is "+named+"; want application/json")
	}
	return nil
}

func validID(id json.RawMessage) bool {
	var value any
	if federation.DecodeJSON(id, &value) != nil {
		return false
	}
	switch value.(type) {
	case string, float64:
		return true
	}
	return false
}

func versionOf(r *http.Request) string {
	return cmp.Or(r.Header.Get(wire.SvcParamVersion), r.URL.Query().Get(wire.SvcParamVersion))
}

// checkVersion treats a request without a version as 0.3.
//
// spec: a2a-1.0 §3.6
func checkVersion(r *http.Request) error {
	if version := versionOf(r); version != string(wire.Version) {
		return fault(codeVersion, fmt.Sprintf("%s %q is not supported; want %s", wire.SvcParamVersion, version, wire.Version))
	}
	return nil
}

func params[T any](req request) (T, error) {
	var p T
	if text := bytes.TrimSpace(req.Params); len(text) == 0 || text[0] != '{' {
		return p, badParams("params: want an object")
	}
	if err := federation.DecodeJSON(req.Params, &p); err != nil {
		return p, badParams("params: " + err.Error())
	}
	return p, nil
}

// reply reports whether a result was written to the client.
func (l *Link) reply(ctx context.Context, w http.ResponseWriter, req request, result any, err error) bool {
	text, failed := json.Marshal(l.responseOf(ctx, req, result, err))
	if failed != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return false
	}
	w.Header().Set("Content-Type", cmp.Or(req.media, mediaJSON))
	_, failed = w.Write(append(text, '\n'))
	return err == nil && failed == nil
}

func (l *Link) responseOf(ctx context.Context, req request, result any, err error) response {
	answer := response{Version: rpcVersion, ID: req.ID, Result: result}
	if answer.ID == nil {
		answer.ID = json.RawMessage("null")
	}
	if err != nil {
		answer.Result, answer.Error = nil, l.errorOf(ctx, req, err)
	} else if result == nil {
		answer.Result = struct{}{}
	}
	return answer
}
