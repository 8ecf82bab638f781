package rest_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
)

// A client that follows the document must not send a member that the API refuses.
func TestBodiesOfTheContractAreClosed(t *testing.T) {
	t.Parallel()
	spec, err := openapi3.NewLoader().LoadFromData(contract.Document())
	if err != nil {
		t.Fatal(err)
	}
	bodies := 0
	for path, item := range spec.Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.RequestBody == nil {
				continue
			}
			bodies++
			checkClosed(t, method+" "+path, operation.RequestBody.Value.Content.Get("application/json").Schema.Value)
		}
	}
	if checkClosed(t, "WebSocket", spec.Components.Schemas["SocketAsk"].Value); bodies < 10 {
		t.Errorf("the contract has %d bodies", bodies)
	}
}

func checkClosed(t *testing.T, at string, s *openapi3.Schema) {
	t.Helper()
	if s.Items != nil {
		checkClosed(t, at+"[]", s.Items.Value)
	}
	if len(s.Properties) == 0 {
		return // a free value
	}
	if s.AdditionalProperties.Has == nil || *s.AdditionalProperties.Has {
		t.Errorf("%s may have other members", at)
	}
	for name, property := range s.Properties {
		checkClosed(t, at+"."+name, property.Value)
	}
}
