package a2a

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/errordetails"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// spec: a2a-1.0 §5.4
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeTaskNotFound   = -32001
	codeNotCancelable  = -32002
	codeNoPush         = -32003
	codeUnsupported    = -32004
	codeContentType    = -32005
	codeVersion        = -32009
)

// reasonOf returns "" for an error of JSON-RPC.
//
// spec: a2a-1.0 §9.5
func reasonOf(code int) string {
	switch code {
	case codeTaskNotFound:
		return "TASK_NOT_FOUND"
	case codeNotCancelable:
		return "TASK_NOT_CANCELABLE"
	case codeNoPush:
		return "PUSH_NOTIFICATION_NOT_SUPPORTED"
	case codeUnsupported:
		return "UNSUPPORTED_OPERATION"
	case codeContentType:
		return "CONTENT_TYPE_NOT_SUPPORTED"
	case codeVersion:
		return "VERSION_NOT_SUPPORTED"
	}
	return ""
}

type faultError struct {
	code   int
	detail string
}

func (e *faultError) Error() string { return e.detail }

func fault(code int, detail string) error { return &faultError{code, detail} }

func badParams(detail string) error { return fault(codeInvalidParams, detail) }

// errNoTask does not reveal whether a hidden task exists.
func errNoTask() error { return fault(codeTaskNotFound, "there is no such task") }

type rpcError struct {
	Code    int                   `json:"code"`
	Message string                `json:"message"`
	Data    []*errordetails.Typed `json:"data,omitempty"`
}

// errorOf counts refusals, and logs failures that the request did not cause.
func (l *Link) errorOf(ctx context.Context, req request, err error) *rpcError {
	var answer *rpcError
	if own, ok := errors.AsType[*faultError](err); ok {
		l.countFault(own)
		answer = newRPCError(own.code, own.detail)
	} else {
		answer = l.problemOf(participant.ProblemOf(err))
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			l.deps.Metrics.Refusals.WithLabelValues(network, refused.Code.Upper()).Inc()
		}
	}
	if answer.Code == codeInternal && ctx.Err() == nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelError, "request not answered", slog.String("network", network), slog.String("link", network),
			slog.String("method", req.Method), slog.Any("err", err))
	}
	return answer
}

func (l *Link) countFault(f *faultError) {
	switch f.code {
	case codeParse:
		l.deps.Metrics.BadInput.WithLabelValues(network, network, "json").Inc()
	case codeInvalidRequest, codeMethodNotFound, codeInvalidParams, codeContentType:
		l.deps.Metrics.BadInput.WithLabelValues(network, network, "request").Inc()
	case codeVersion:
		l.deps.Metrics.BadInput.WithLabelValues(network, network, "version").Inc()
	}
}

func newRPCError(code int, message string) *rpcError {
	answer := &rpcError{Code: code, Message: message}
	if reason := reasonOf(code); reason != "" {
		answer.Data = append(answer.Data, errordetails.NewErrorInfo(reason, wire.ProtocolDomain, nil))
	}
	return answer
}

func (l *Link) problemOf(p bridge.ProblemError) *rpcError {
	answer := newRPCError(codeOf(p), p.Detail)
	if answer.Code == codeTaskNotFound {
		return answer // as for a task that never existed
	}
	var meta map[string]string
	if p.RetryAfter > 0 {
		meta = map[string]string{"retry_after": strconv.Itoa(p.RetryAfter)}
	}
	why := strings.ToUpper(strings.ReplaceAll(p.Code, "-", "_"))
	answer.Data = append(answer.Data, errordetails.NewErrorInfo(why, string(l.deps.Home), meta))
	return answer
}

func codeOf(p bridge.ProblemError) int {
	switch {
	case p.Code == string(federation.UnknownHandoff):
		return codeTaskNotFound
	case p.Status == http.StatusBadRequest, p.Code == participant.CodeOtherRequest:
		return codeInvalidParams
	case p.Status == http.StatusTooManyRequests, p.Status >= http.StatusInternalServerError:
		return codeInternal
	}
	return codeUnsupported
}

func (l *Link) deny(w http.ResponseWriter, r *http.Request, err error) {
	p := participant.ProblemOf(err)
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusInternalServerError:
		l.deps.Log.LogAttrs(r.Context(), slog.LevelError, "request not answered", slog.String("network", network), slog.String("link", network),
			slog.String("path", r.URL.Path), slog.Any("err", err))
	}
	bridge.RetryHeader(w.Header(), p.Status, p.RetryAfter)
	http.Error(w, p.Detail, p.Status)
}

func errNoAgent() error {
	return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "no agent with this DID takes tasks here"}
}
