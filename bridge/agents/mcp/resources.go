package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation/fault"
)

const (
	inboxURI       = "inbox://me"
	handoffScheme  = "handoff://"
	passportScheme = "passport://"
)

const (
	jsonType     = "application/json"
	passportType = "application/vnd.baton.passport+json"
)

// The error code of an unknown resource before revision 2026-07-28.
const codeNoResource = -32002

// The revision without sessions.
const newestRevision = "2026-07-28"

func (s *server) addResources() {
	s.mcp.AddResource(&mcp.Resource{URI: inboxURI, Name: "inbox", Title: "Your inbox", MIMEType: jsonType}, s.readInbox)
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: handoffScheme + "{id}", Name: "handoff", Title: "A handoff with its steps", MIMEType: jsonType,
	}, s.readHandoff)
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: passportScheme + "{id}", Name: "passport", Title: "The passport of a handoff", MIMEType: passportType,
	}, s.readPassport)
}

func (s *server) readInbox(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	a, err := listInbox(ctx, s, nil, inboxInput{})
	return s.contents(ctx, req, a.structured, err)
}

func (s *server) readHandoff(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	a, err := getHandoff(ctx, s, nil, idInput{strings.TrimPrefix(req.Params.URI, handoffScheme)})
	return s.contents(ctx, req, a.structured, err)
}

func (s *server) readPassport(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	document, err := s.account.Passport(ctx, strings.TrimPrefix(req.Params.URI, passportScheme))
	if err != nil {
		return nil, s.resourceError(ctx, req.Params.URI, err)
	}
	content := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: document.MediaType, Text: string(document.Content)}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

func (s *server) contents(ctx context.Context, req *mcp.ReadResourceRequest, structured any, err error) (*mcp.ReadResourceResult, error) {
	if err != nil {
		return nil, s.resourceError(ctx, req.Params.URI, err)
	}
	text, err := json.Marshal(structured)
	if err != nil {
		return nil, fmt.Errorf("write resource: %w", err)
	}
	content := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: jsonType, Text: string(text)}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

// resourceError reports a hidden handoff and a malformed ID as a missing resource.
func (s *server) resourceError(ctx context.Context, uri string, err error) error {
	p := participant.ProblemOf(err)
	if p.Status == http.StatusNotFound || p.Status == http.StatusBadRequest {
		return mcp.ResourceNotFoundError(uri)
	}
	s.onToolError(ctx, "resources/read", err)
	data, failed := json.Marshal(map[string]toolError{"error": toolErrorOf(err)})
	if failed != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: p.Code + ": " + p.Detail, Data: data}
}

// revise adapts responses to clients of older revisions.
func (s *server) revise(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		subscribes := method == "resources/subscribe" || method == "resources/unsubscribe"
		if subscribes && !s.legacySubscriptions {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " needs a session, and there are none over HTTP"}
		}
		var result mcp.Result
		err := fault.Catch(func() (err error) { result, err = next(ctx, method, req); return err }) // runs on a goroutine of the SDK, not of the request
		if fault.Of(err) != nil {
			s.onToolError(ctx, method, err)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
		}
		if initialized, ok := result.(*mcp.InitializeResult); ok && err == nil && !s.legacySubscriptions {
			initialized.Capabilities = withoutSubscribe(initialized.Capabilities)
		}
		missing, ok := errors.AsType[*jsonrpc.Error](err)
		if ok && missing.Code == jsonrpc.CodeInvalidParams && method == "resources/read" && s.isOld(req) {
			err = &jsonrpc.Error{Code: codeNoResource, Message: missing.Message, Data: missing.Data}
		}
		return result, err
	}
}

// withoutSubscribe removes subscriptions, which need a session.
func withoutSubscribe(c *mcp.ServerCapabilities) *mcp.ServerCapabilities {
	served, resources := *c, *c.Resources
	resources.Subscribe = false
	served.Resources = &resources
	return &served
}

func (*server) isOld(req mcp.Request) bool {
	session, ok := req.GetSession().(*mcp.ServerSession)
	if !ok || session.InitializeParams() == nil {
		return true
	}
	return session.InitializeParams().ProtocolVersion < newestRevision
}

func errNoResource() error {
	return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there is no such resource"}
}
