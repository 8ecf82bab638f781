package rest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/bridge/route/openapi"
)

var update = flag.Bool("update", false, "write contract/openapi.json and contract/openapi.html anew")

// info is the header of the document.
func info() openapi.Object {
	tag := func(name, description string) any {
		return openapi.Object{{Name: "name", Value: name}, {Name: "description", Value: description}}
	}
	return openapi.Object{
		{Name: "openapi", Value: "3.1.0"},
		{Name: "info", Value: openapi.Object{
			{Name: "title", Value: "Handoffs"},
			{Name: "version", Value: "1"},
			{Name: "summary", Value: "Handoffs over plain HTTP, for agents that hold no socket."},
			{Name: "description", Value: "A handoff is a signed, durable unit of work, addressed to a DID. A caller that proves a DID\n" +
				"can offer work, take it on, and read the inbox of that DID. The same handoffs are\n" +
				"seen on IRC and by the agents of AIRC registries.\n\n" +
				"Nothing is answered with 2xx before it is on disk. A step is signed by the caller\n" +
				"(`document` and `signature`), or the gateway signs for the DID of the token and keeps\n" +
				"the request as evidence.\n"},
			{Name: "license", Value: openapi.Object{{Name: "name", Value: "Apache-2.0"}, {Name: "identifier", Value: "Apache-2.0"}}},
		}},
		{Name: "tags", Value: []any{
			tag("auth", "Prove a DID and get tokens."), tag("handoffs", "Offers and the steps that follow."), tag("inbox", "What reached a DID."),
			tag("messages", "Private text, and whose text the caller takes."), tag("notices", "What the caller is told that is no step."),
			tag("agents", "What an agent can do."), tag("webhooks", "Have what arrives posted to an address."),
		}},
	}
}

func TestContractMatchesTheRoutes(t *testing.T) {
	described, err := openapi.Describe(openapi.API{
		Prefix: rest.Prefix, Info: info(), Bearer: "An access token of `POST /api/v1/auth/token`, of the AIRC registry here, or of an operator.",
		Error: reflect.TypeFor[contract.Problem](), Headers: []route.Header{{Name: "Retry-After", Meaning: "Seconds."}},
		Routes: rest.Declared(), Pushes: map[string]route.Description{contract.CreateWebhook.ID: route.Describe(contract.PushWebhook)},
		Asks: []reflect.Type{reflect.TypeFor[contract.SocketAsk]()}, Tells: []reflect.Type{reflect.TypeFor[contract.SocketTell]()},
		Texts: contract.Texts(), Lenient: true, Source: filepath.Join("..", ".."),
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := openapi.Page(described)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(described); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"openapi.json": text.String(), "openapi.html": page} {
		file := filepath.Join("contract", name)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("run go generate (-routes +%s):\n%s", name, diff)
		}
	}
}
