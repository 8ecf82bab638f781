package admin_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/route/openapi"
	"github.com/baton-gateway/baton/federation"
)

var update = flag.Bool("update", false, "write openapi.yaml anew")

// contractFile is the document of the API.
const contractFile = "openapi.yaml"

// info is the header of the document.
func info() openapi.Object {
	return openapi.Object{
		{Name: "openapi", Value: "3.1.0"},
		{Name: "info", Value: openapi.Object{
			{Name: "title", Value: "Operator API"},
			{Name: "version", Value: "1"},
			{Name: "summary", Value: "What operators see of a gateway and what they may change."},
			{Name: "description", Value: "A list takes `limit` and `cursor`. With `watch`, which needs no value, a list that has that\n" +
				"parameter answers JSON lines, one item each, until the client leaves: first the items of the\n" +
				"page, then each item that is new or changed. A request with a parameter or a member that the\n" +
				"contract does not have is refused. Errors are problem documents (RFC 9457).\n\n" +
				"`x-scope` is the scope that a token needs: `read`, `operate` or `admin`. On the socket of the\n" +
				"gateway no token is needed.\n"},
			{Name: "license", Value: openapi.Object{{Name: "name", Value: "Apache-2.0"}, {Name: "identifier", Value: "Apache-2.0"}}},
		}},
	}
}

func TestContractMatchesTheRoutes(t *testing.T) {
	described, err := openapi.Describe(openapi.API{
		Prefix: admin.Prefix, Info: info(), Bearer: "An operator token.", Error: reflect.TypeFor[bridge.ProblemError](),
		Routes: admin.Declared(), Source: filepath.Join("..", ".."),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := described.YAML()
	if *update {
		if err := os.WriteFile(contractFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(contractFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("run go generate (-routes +openapi.yaml):\n%s", diff)
	}
}

// readContract reads the document.
func readContract(t *testing.T) *openapi3.T {
	t.Helper()
	spec, err := openapi3.NewLoader().LoadFromFile(contractFile)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestContractHasEachRouteAndScope(t *testing.T) {
	promised := map[string]federation.Scope{}
	for path, item := range readContract(t).Paths.Map() {
		for method, operation := range item.Operations() {
			scope, _ := operation.Extensions["x-scope"].(string)
			promised[method+" "+strings.TrimPrefix(path, admin.Prefix)] = federation.Scope(scope)
		}
	}
	mounted := map[string]federation.Scope{"POST participants/{did}/{operation}": federation.OperateScope} // by package main
	for pattern, scope := range admin.Routes() {
		mounted[strings.ReplaceAll(pattern, "...}", "}")] = scope // a name may have slashes, of which a contract knows nothing
	}
	if diff := cmp.Diff(mounted, promised); diff != "" {
		t.Errorf("routes (-mounted +contract):\n%s", diff)
	}
}

func TestContractHasTheRequestBodies(t *testing.T) {
	spec := readContract(t)
	for pattern, members := range admin.Bodies() {
		method, path, _ := strings.Cut(strings.ReplaceAll(pattern, "...}", "}"), " ")
		schema := spec.Paths.Value(admin.Prefix + path).GetOperation(method).RequestBody.Value.Content.Get("application/json").Schema.Value
		promised := map[string]bool{}
		for name := range schema.Properties {
			promised[name] = true
		}
		if diff := cmp.Diff(members, promised); diff != "" {
			t.Errorf("%s (-read +contract):\n%s", pattern, diff)
		}
	}
}

// routes returns a router of the contract, to check answers with it. It takes longer than most tests.
var routes = sync.OnceValues(func() (routers.Router, error) {
	spec, err := openapi3.NewLoader().LoadFromFile(contractFile)
	if err != nil {
		return nil, err
	}
	spec.Servers, spec.OpenAPI = nil, "3.0.3" // the library compiles each schema of 3.1 for each answer
	return gorillamux.NewRouter(spec)
})

func inContract(t *testing.T, r *http.Request, status int, header http.Header, text []byte) {
	t.Helper()
	router, err := routes()
	if err != nil {
		t.Fatal(err)
	}
	route, params, err := router.FindRoute(r)
	if err != nil {
		return // a path or a method that the contract does not have
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 status, Header: header, Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(text)
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s %s is answered %d, which is not in the contract: %v\n%s", r.Method, r.URL, status, err, text)
	}
}
