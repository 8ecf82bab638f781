package operatorapi_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

func TestTheContractHasEachRouteAndItsScope(t *testing.T) {
	spec, err := contract.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	promised := map[string]federation.Scope{}
	for path, item := range spec.Paths.Map() {
		for method, operation := range item.Operations() {
			scope, _ := operation.Extensions["x-scope"].(string)
			promised[method+" "+strings.TrimPrefix(path, operatorapi.Prefix)] = federation.Scope(scope)
		}
	}
	mounted := map[string]federation.Scope{}
	for pattern, scope := range operatorapi.Routes() {
		mounted[strings.ReplaceAll(pattern, "...}", "}")] = scope // a name may have slashes, of which a contract knows nothing
	}
	if diff := cmp.Diff(mounted, promised); diff != "" {
		t.Errorf("routes (-mounted +contract):\n%s", diff)
	}
}

func TestTheContractHasTheBodiesThatRoutesTake(t *testing.T) {
	spec, err := contract.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for pattern, members := range operatorapi.Bodies() {
		method, path, _ := strings.Cut(strings.ReplaceAll(pattern, "...}", "}"), " ")
		schema := spec.Paths.Value(operatorapi.Prefix + path).GetOperation(method).RequestBody.Value.Content.Get("application/json").Schema.Value
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
	spec, err := contract.GetSpec()
	if err != nil {
		return nil, err
	}
	spec.Servers, spec.OpenAPI = nil, "3.0.3" // the library compiles each schema of 3.1 for each answer
	return gorillamux.NewRouter(spec)
})

// inContract checks an answer against the contract.
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
