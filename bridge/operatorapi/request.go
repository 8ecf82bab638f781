package operatorapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// bodyKey is the key of the error of a body in the context of a request.
type bodyKey struct{}

// exactBody checks the one JSON object of a request: no member twice, none that document does
// not have. A request that fails the check goes on with an empty object. Its handler returns the
// error of [bodyOf], once it has checked what the path names.
func exactBody(r *http.Request, document func() any) *http.Request {
	text, err := readBody(r, document())
	if err != nil {
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, err))
		text = []byte("{}")
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return r
}

// bodyOf returns why a handler cannot use the body of its request, or nil.
func bodyOf(ctx context.Context) error {
	err, _ := ctx.Value(bodyKey{}).(error) // most bodies have none
	return err
}

func readBody(r *http.Request, into any) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		return nil, usage("the body ended too early")
	case len(text) > maxBodyBytes:
		return nil, usage(fmt.Sprintf("a body is at most %d bytes", maxBodyBytes))
	}
	if err := federation.ExactJSON(text); err != nil {
		return nil, usage("the body is not acceptable JSON: " + err.Error())
	}
	if err := federation.DecodeStrictJSON(text, into); err != nil {
		return nil, usage("the body: " + err.Error())
	}
	return text, nil
}

// newDocument returns a function that returns an empty document of one type.
func newDocument[T any]() func() any { return func() any { return new(T) } }

// parameters are the query parameters of each operation of the contract, by its route.
type parameters map[string][]string

// readParameters reads the contract, which takes memory: it is called with the first request.
func readParameters() (parameters, error) {
	spec, err := contract.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("read contract: %w", err)
	}
	all := parameters{}
	for path, item := range spec.Paths.Map() {
		for method, operation := range item.Operations() {
			all[method+" "+strings.TrimPrefix(path, Prefix)] = queryOf(operation)
		}
	}
	return all, nil
}

func queryOf(operation *openapi3.Operation) []string {
	var names []string
	for _, p := range operation.Parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			names = append(names, p.Value.Name)
		}
	}
	return names
}

// check returns an error for a parameter that a route does not have: a misspelt filter must
// not answer with everything. Changes without parameters ignore all of them, and every route
// ignores the parameters of lists.
func (p parameters) check(r *http.Request, route string) error {
	names := p[strings.ReplaceAll(route, "...}", "}")]
	if len(names) == 0 && (r.Method == http.MethodPost || r.Method == http.MethodPut) {
		return nil
	}
	for name := range r.URL.Query() {
		switch name {
		case "limit", "cursor":
			continue
		case "watch":
			if !slices.Contains(names, name) && slices.Contains(names, "cursor") {
				return usage("this list cannot be watched")
			}
			continue
		}
		if !slices.Contains(names, name) {
			return usage("there is no parameter " + strconv.Quote(name))
		}
	}
	return nil
}
