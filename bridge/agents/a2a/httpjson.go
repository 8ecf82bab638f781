package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/errordetails"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

const restPath = "/v1"

const (
	mediaJSON = "application/json"
	mediaA2A  = "application/a2a+json"
)

// restRoute converts a request of the HTTP+JSON binding to the method and parameters of JSONRPC.
type restRoute struct {
	pattern string // method and path below the endpoint
	read    func(r *http.Request, body json.RawMessage) (method string, params map[string]any, err error)
}

// spec: a2a-1.0 §11.3
func restRoutes() []restRoute {
	whole := func(method string) func(*http.Request, json.RawMessage) (string, map[string]any, error) {
		return func(_ *http.Request, body json.RawMessage) (string, map[string]any, error) {
			params, err := membersOf(body)
			return method, params, err
		}
	}
	config := func(method string) func(*http.Request, json.RawMessage) (string, map[string]any, error) {
		return func(r *http.Request, _ json.RawMessage) (string, map[string]any, error) {
			return method, map[string]any{"taskId": r.PathValue("task"), "id": r.PathValue("config")}, nil
		}
	}
	return []restRoute{
		{"POST /message:send", whole(methodSend)},
		{"POST /message:stream", whole(methodStream)},
		{"GET /tasks", readList},
		{"GET /tasks/{task}", readTask},
		{"POST /tasks/{task}", readTask},
		{"POST /tasks/{task}/pushNotificationConfigs", func(r *http.Request, body json.RawMessage) (string, map[string]any, error) {
			params, err := membersOf(body)
			if err == nil {
				params["taskId"] = r.PathValue("task")
			}
			return methodPushCreate, params, err
		}},
		{"GET /tasks/{task}/pushNotificationConfigs", func(r *http.Request, _ json.RawMessage) (string, map[string]any, error) {
			return methodPushList, map[string]any{"taskId": r.PathValue("task")}, nil
		}},
		{"GET /tasks/{task}/pushNotificationConfigs/{config}", config(methodPushGet)},
		{"DELETE /tasks/{task}/pushNotificationConfigs/{config}", config(methodPushDelete)},
		{"GET /extendedAgentCard", whole(methodExtendedCard)},
	}
}

func membersOf(body json.RawMessage) (map[string]any, error) {
	params := map[string]any{}
	if len(body) == 0 {
		return params, nil
	}
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(body, &members); err != nil || members == nil {
		return nil, badParams("want an object")
	}
	for name, member := range members {
		params[name] = member
	}
	return params, nil
}

// readTask reads a request about one task. The path may end in an action.
func readTask(r *http.Request, body json.RawMessage) (string, map[string]any, error) {
	params, err := membersOf(body)
	if err != nil {
		return "", nil, err
	}
	id, action, _ := strings.Cut(r.PathValue("task"), ":")
	params["id"] = id
	switch {
	case action == "subscribe":
		return methodSubscribe, params, nil
	case action == "cancel" && r.Method == http.MethodPost:
		return methodCancel, params, nil
	case action == "" && r.Method == http.MethodGet:
		return methodGet, params, addNumbers(params, r.URL.Query(), "historyLength")
	}
	return "", nil, fault(codeMethodNotFound, "there is no action "+action)
}

func readList(r *http.Request, _ json.RawMessage) (string, map[string]any, error) {
	query, params := r.URL.Query(), map[string]any{}
	for _, name := range []string{"contextId", "status", "pageToken", "statusTimestampAfter"} {
		if query.Has(name) {
			params[name] = query.Get(name)
		}
	}
	if text := query.Get("includeArtifacts"); text != "" {
		include, err := strconv.ParseBool(text)
		if err != nil {
			return "", nil, badParams("includeArtifacts: want true or false")
		}
		params["includeArtifacts"] = include
	}
	return methodList, params, addNumbers(params, query, "pageSize", "historyLength")
}

func addNumbers(params map[string]any, query url.Values, names ...string) error {
	for _, name := range names {
		if !query.Has(name) {
			continue
		}
		n, err := strconv.Atoi(query.Get(name))
		if err != nil {
			return badParams(name + ": want an integer")
		}
		params[name] = n
	}
	return nil
}

func (l *Link) mountREST(mux *http.ServeMux) {
	for _, route := range restRoutes() {
		method, path, _ := strings.Cut(route.pattern, " ")
		mux.HandleFunc(method+" "+gatewayPath+restPath+path, func(w http.ResponseWriter, r *http.Request) { l.serveREST(w, r, route, "") })
		mux.HandleFunc(method+" "+agentPath+"{did}"+restPath+path, func(w http.ResponseWriter, r *http.Request) {
			did, err := l.addressee(r)
			if err != nil {
				l.deny(w, r, err)
				return
			}
			l.serveREST(w, r, route, did)
		})
	}
}

func (l *Link) serveREST(w http.ResponseWriter, r *http.Request, route restRoute, agent federation.DID) {
	caller, ok := l.admit(w, r, agent)
	if !ok {
		return
	}
	req := request{caller: caller, bearer: r.Header.Get("Authorization"), agent: agent, rest: true, media: mediaOf(r)}
	ctx := bridge.WithSubnet(r.Context(), credential.AddressOf(r))
	if err := l.readREST(r, route, &req); err != nil {
		l.replyREST(ctx, w, req, nil, err)
		return
	}
	if req.Method == methodStream || req.Method == methodSubscribe {
		l.serveStream(ctx, w, req)
		return
	}
	result, err := l.call(ctx, req)
	if l.replyREST(ctx, w, req, result, err) {
		l.noteRead(ctx, caller.DID, stepsIn(result)...)
	}
}

func (l *Link) readREST(r *http.Request, route restRoute, req *request) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, l.deps.HTTP.MaxBodyBytes+1))
	switch {
	case err != nil:
		return fault(codeParse, "the body ended too early")
	case int64(len(body)) > l.deps.HTTP.MaxBodyBytes:
		return fault(codeInvalidRequest, fmt.Sprintf("a body is at most %d bytes", l.deps.HTTP.MaxBodyBytes))
	}
	if len(body) > 0 {
		if err := checkType(r); err != nil {
			return err
		}
		if err := federation.ExactJSON(body); err != nil {
			return fault(codeParse, "the body is not acceptable JSON: "+err.Error())
		}
	}
	if err := checkVersion(r); err != nil {
		return err
	}
	method, params, err := route.read(r, body)
	if err != nil {
		return err
	}
	text, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("read parameters: %w", err)
	}
	req.Method = method
	req.Params, err = withJSONNames(text)
	return err
}

// mediaOf returns the type of the request, or the accepted type.
func mediaOf(r *http.Request) string {
	if strings.HasPrefix(r.Header.Get("Content-Type"), mediaA2A) || strings.Contains(r.Header.Get("Accept"), mediaA2A) {
		return mediaA2A
	}
	return mediaJSON
}

// spec: a2a-1.0 §11.6
type restError struct {
	Error restStatus `json:"error"`
}

type restStatus struct {
	Code    int                   `json:"code"`
	Status  string                `json:"status"`
	Message string                `json:"message"`
	Details []*errordetails.Typed `json:"details,omitempty"`
}

func (l *Link) restErrorOf(ctx context.Context, req request, err error) (restError, int) {
	answer := l.errorOf(ctx, req, err)
	status, name := http.StatusBadRequest, "FAILED_PRECONDITION"
	switch answer.Code {
	case codeParse, codeInvalidRequest, codeInvalidParams, codeContentType:
		name = "INVALID_ARGUMENT"
	case codeTaskNotFound:
		status, name = http.StatusNotFound, "NOT_FOUND"
	case codeMethodNotFound:
		status, name = http.StatusNotImplemented, "UNIMPLEMENTED"
	case codeInternal:
		status, name = http.StatusInternalServerError, "INTERNAL"
		switch p := participant.ProblemOf(err); p.Status {
		case http.StatusTooManyRequests:
			status, name = p.Status, "RESOURCE_EXHAUSTED"
		case http.StatusServiceUnavailable:
			status, name = p.Status, "UNAVAILABLE"
		}
	}
	return restError{restStatus{status, name, answer.Message, answer.Data}}, status
}

// replyREST reports whether a result was written to the client.
func (l *Link) replyREST(ctx context.Context, w http.ResponseWriter, req request, result any, err error) bool {
	status := http.StatusOK
	if err != nil {
		p := participant.ProblemOf(err)
		result, status = l.restErrorOf(ctx, req, err)
		bridge.RetryHeader(w.Header(), status, p.RetryAfter)
	} else if result == nil {
		result = struct{}{}
	}
	text, failed := json.Marshal(result)
	if failed != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return false
	}
	w.Header().Set("Content-Type", req.media)
	w.WriteHeader(status)
	_, failed = w.Write(append(text, '\n'))
	return err == nil && failed == nil
}
