package a2a_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

func TestRPCAnswersMalformedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.login(t, "ada")
	unsupported := []string{"-32009", "VERSION_NOT_SUPPORTED a2a-protocol.org"}
	for name, tt := range map[string]struct {
		body   string
		header []string
		want   []string
		id     any
	}{
		"another type":          {body: `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, header: []string{"Content-Type", "text/plain"}, want: []string{"-32005", "CONTENT_TYPE_NOT_SUPPORTED a2a-protocol.org"}},
		"no JSON":               {body: `{`, want: []string{"-32700"}},
		"nothing":               {body: ``, want: []string{"-32700"}},
		"a member twice":        {body: `{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}`, want: []string{"-32700"}},
		"no object":             {body: `7`, want: []string{"-32600"}},
		"a batch":               {body: `[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]`, want: []string{"-32600"}},
		"too much":              {body: `{"pad":"` + strings.Repeat("x", 65536) + `"}`, want: []string{"-32600"}},
		"no ID":                 {body: `{"jsonrpc":"2.0","method":"GetTask","params":{"id":"x"}}`, want: []string{"-32600"}},
		"an ID that is a list":  {body: `{"jsonrpc":"2.0","id":[],"method":"GetTask"}`, want: []string{"-32600"}},
		"another JSON-RPC":      {body: `{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, want: []string{"-32600"}, id: 1.0},
		"no JSON-RPC":           {body: `{"id":1,"method":"GetTask"}`, want: []string{"-32600"}, id: 1.0},
		"no method":             {body: `{"jsonrpc":"2.0","id":"a"}`, want: []string{"-32600"}, id: "a"},
		"a method that is none": {body: `{"jsonrpc":"2.0","id":"a","method":7}`, want: []string{"-32600"}, id: "a"},
		"an unknown method":     {body: `{"jsonrpc":"2.0","id":"a","method":"message/send","params":{}}`, want: []string{"-32601"}, id: "a"},
		"no parameters":         {body: `{"jsonrpc":"2.0","id":"a","method":"GetTask"}`, want: []string{"-32602"}, id: "a"},
		"a list of parameters":  {body: `{"jsonrpc":"2.0","id":"a","method":"GetTask","params":["x"]}`, want: []string{"-32602"}, id: "a"},
		"a wrong parameter":     {body: `{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":7}}`, want: []string{"-32602"}, id: "a"},
		"a wrong one, streamed": {body: `{"jsonrpc":"2.0","id":"a","method":"SubscribeToTask","params":{"id":7}}`, want: []string{"-32602"}, id: "a"},
		"no version":            {body: `{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{}}`, header: []string{"A2A-Version", ""}, want: unsupported, id: "a"},
		"another version":       {body: `{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{}}`, header: []string{"A2A-Version", "0.3"}, want: unsupported, id: "a"},
		"the extended card":     {body: `{"jsonrpc":"2.0","id":"a","method":"GetExtendedAgentCard","params":{}}`, want: []string{"-32004", "UNSUPPORTED_OPERATION a2a-protocol.org"}, id: "a"},
	} {
		got := ada.post(t, "/a2a", tt.body, tt.header...)
		if diff := cmp.Diff(tt.want, faultOf(got)); diff != "" || got.Status != http.StatusOK || got.ID != tt.id {
			t.Errorf("%s is answered %d %s (-want +got):\n%s", name, got.Status, got.Text, diff)
		}
	}
}

func TestRPCVersionMayBeInTheQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.login(t, "ada").post(t, "/a2a?A2A-Version=1.0", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, "A2A-Version", "")
	if got.Error != nil {
		t.Errorf("answered %s", got.Text)
	}
}

func TestRPCNeedsAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob := w.login(t, "bob").declares(t, "cite")
	for name, tt := range map[string]struct {
		token  string
		status int
	}{
		"no token":    {"", http.StatusUnauthorized},
		"another one": {"x", http.StatusUnauthorized},
		"an operator": {"operator", http.StatusForbidden},
	} {
		for _, path := range []string{"/a2a", bob.path()} {
			stranger := &agent{w: w, token: tt.token}
			got := stranger.call(t, path, "ListTasks", `{}`)
			if got.Status != tt.status {
				t.Errorf("%s at %s is answered %d %s", name, path, got.Status, got.Text)
			}
			if challenge := got.Header.Get("WWW-Authenticate"); (challenge == "Bearer") != (tt.status == http.StatusUnauthorized) {
				t.Errorf("%s at %s is challenged by %q", name, path, challenge)
			}
		}
	}
}

// blocks blocks one DID, and optionally each address.
type blocks struct {
	did       federation.DID
	addresses bool
}

// Blocked implements [bridge.Blocks].
func (b blocks) Blocked(_ context.Context, s federation.Source) error {
	if b.did != "" && slices.Contains(s.DIDs, b.did) || b.addresses && len(s.DIDs) == 0 {
		return &federation.RefusalError{Code: federation.PolicyDenied}
	}
	return nil
}

func TestRPCRefusesABlockedSource(t *testing.T) {
	t.Parallel()
	did := bridgetest.SeededKey("ada").DID
	for name, blocked := range map[string]bridge.Blocks{"a DID": blocks{did: did}, "an address": blocks{addresses: true}} {
		w := newWorld(t, func(d *deps) { d.Blocks = blocked })
		if got := w.login(t, "ada").call(t, "/a2a", "ListTasks", `{}`); got.Status != http.StatusForbidden {
			t.Errorf("%s is answered %d %s", name, got.Status, got.Text)
		}
	}
}

func TestEndpointIsAbsentForOtherDIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, elsewhere := w.login(t, "ada"), w.login(t, "elsewhere").declares(t, "cite")
	for _, path := range []string{ada.path(), elsewhere.path(), "/a2a/did:key:x", "/a2a/scout"} {
		if got := ada.call(t, path, "ListTasks", `{}`); got.Status != http.StatusNotFound {
			t.Errorf("POST %s is answered %d %s", path, got.Status, got.Text)
		}
		if got := w.get(t, path+"/.well-known/agent-card.json"); got.Status != http.StatusNotFound {
			t.Errorf("the card of %s is answered %d %s", path, got.Status, got.Text)
		}
	}
	for _, path := range []string{"/a2a", w.login(t, "scout").path(), strings.ReplaceAll(w.login(t, "scout").path(), ":", "%3A")} {
		if got := ada.call(t, path, "ListTasks", `{}`); got.Status != http.StatusOK || got.Error != nil {
			t.Errorf("POST %s is answered %d %s", path, got.Status, got.Text)
		}
	}
	if got := w.get(t, "/a2a"); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("GET /a2a is answered %d", got.Status)
	}
}

func TestRPCReportsAnOutageAsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three"))
	if err := w.record.Close(); err != nil {
		t.Fatal(err)
	}
	got := ada.call(t, "/a2a", "GetTask", fmt.Sprintf(`{"id":%q}`, task.ID))
	if got.Status != http.StatusServiceUnavailable { // the state of the token's session is unknown
		t.Errorf("answered %d %s", got.Status, got.Text)
	}
}
