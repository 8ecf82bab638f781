package agentapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/federation"
)

// checker holds requests to the contract.
type checker struct {
	spec   *openapi3.T
	router routers.Router
}

func newChecker() (*checker, error) {
	spec, err := contract.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	spec.Servers = nil // whatever name this gateway is asked by
	// The library compiles each schema of a contract of 3.1 for each request, in a
	// millisecond or two. What requests are held to means the same in 3.0, which it reads
	// without that.
	spec.OpenAPI = "3.0.3"
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	return &checker{spec, router}, nil
}

// request returns why a request does not follow the contract. Denied is why its caller is
// unknown, nil for a known one; it matters where the contract requires a token.
func (c *checker) request(r *http.Request, denied error) error {
	route, params, err := c.find(r, r.Method)
	switch {
	case errors.Is(err, routers.ErrMethodNotAllowed):
		return c.otherMethod(r)
	case err != nil:
		return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: "there is no " + r.URL.Path}
	}
	for name, raw := range params { // the router finds operations by the path as it was escaped
		if params[name], err = url.PathUnescape(raw); err != nil {
			return usage(name + ": " + err.Error())
		}
	}
	options := &openapi3filter.Options{
		SkipSettingDefaults: true,
		AuthenticationFunc:  func(context.Context, *openapi3filter.AuthenticationInput) error { return denied },
	}
	options.WithCustomSchemaErrorFunc(func(err *openapi3.SchemaError) string { return reason(err) })
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: options}
	err = openapi3filter.ValidateRequest(r.Context(), input)
	_, unauthorized := errors.AsType[*openapi3filter.SecurityRequirementsError](err)
	switch {
	case unauthorized:
		return denied
	case err != nil:
		return usage(sentence(err))
	}
	return unknownParameter(r, route)
}

// find looks for the operation of a path and a method. HEAD is allowed where GET is, except
// for streams: a client that has the header of a stream would take it for the whole answer,
// and the connection for free.
//
// spec: RFC 9110 §9.3.2
func (c *checker) find(r *http.Request, method string) (*routers.Route, map[string]string, error) {
	probe := r.WithContext(r.Context())
	endless := r.URL.Path == streamPath || r.URL.Path == socketPath
	if probe.Method = method; method == http.MethodHead && !endless {
		probe.Method = http.MethodGet
	}
	return c.router.FindRoute(probe)
}

// ask returns what a message of a WebSocket asks for, and which one of its members that is.
func (c *checker) ask(text []byte) (ask contract.SocketAsk, what string, err error) {
	if err := federation.ExactJSON(text); err != nil {
		return ask, "", usage("the message is not acceptable JSON: " + err.Error())
	}
	var value any
	if err := federation.DecodeJSON(text, &value); err != nil {
		return ask, "", usage("the message is not acceptable JSON: " + err.Error())
	}
	members, _ := value.(map[string]any) // the schema sees to it that it is one
	ask.ID, _ = members["id"].(string)   // and the refusal of what is none has its id too
	if err := c.spec.Components.Schemas["SocketAsk"].Value.VisitJSON(value); err != nil {
		return ask, "", usage("the message is no SocketAsk: " + reason(err))
	}
	delete(members, "id")
	if len(members) != 1 {
		return ask, "", usage("one thing is asked for at a time: ack, nack, extend or lease")
	}
	what = slices.Collect(maps.Keys(members))[0]
	return ask, what, federation.DecodeJSON(text, &ask)
}

// reason returns what a schema has against a value.
func reason(err error) string {
	if wrong, ok := errors.AsType[*openapi3.SchemaError](err); ok {
		return strings.Join(append(wrong.JSONPointer(), wrong.Reason), ": ")
	}
	return err.Error()
}

// sentence returns what is wrong with a request, in one line.
func sentence(err error) string {
	wrong, ok := errors.AsType[*openapi3filter.RequestError](err)
	if !ok {
		return err.Error()
	}
	text := wrong.Reason
	switch {
	case wrong.RequestBody != nil && errors.Is(wrong.Err, openapi3filter.ErrInvalidRequired):
		return "a body is needed"
	case wrong.Err != nil:
		text = wrong.Err.Error()
	}
	if _, lines, found := strings.Cut(text, "\n"); found { // the first line of a schema's error names the schema, which has no name
		text = strings.Join(strings.Split(strings.ReplaceAll(lines, "- at '': ", ""), "\n"), "; ")
	}
	if wrong.Parameter != nil {
		text = wrong.Parameter.Name + ": " + text
	}
	return text
}

// unknownParameter refuses a parameter that the operation does not have: a filter that
// is misspelt must not answer with everything.
func unknownParameter(r *http.Request, route *routers.Route) error {
	for name := range r.URL.Query() {
		has := func(p *openapi3.ParameterRef) bool {
			return p.Value.In == openapi3.ParameterInQuery && p.Value.Name == name
		}
		if !slices.ContainsFunc(route.Operation.Parameters, has) && !slices.ContainsFunc(route.PathItem.Parameters, has) {
			return usage("there is no parameter " + strconv.Quote(name))
		}
	}
	return nil
}

// methodError is a path that is there under other methods.
type methodError struct {
	method  string
	allowed []string
}

// Error implements error.
func (e *methodError) Error() string {
	return e.method + " is not for this path: " + strings.Join(e.allowed, ", ")
}

func (c *checker) otherMethod(r *http.Request) error {
	e := &methodError{method: r.Method}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if _, _, err := c.find(r, method); err == nil {
			e.allowed = append(e.allowed, method)
		}
	}
	return e
}
