package airc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// scripted is a registry that gives fixed answers, and records its requests.
type scripted struct {
	mu      sync.Mutex
	answers map[string]string // by path and query
	asked   []string
}

// RoundTrip implements [http.RoundTripper].
func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.RequestURI())
	recorder := httptest.NewRecorder()
	if text, ok := s.answers[r.URL.RequestURI()]; ok {
		_, _ = recorder.WriteString(text)
	} else {
		recorder.WriteHeader(http.StatusNotFound)
	}
	return recorder.Result(), nil
}

// requests returns the requests so far, except for the well-known document.
func (s *scripted) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asked), func(uri string) bool { return uri == "/.well-known/airc" })
}

// wellKnownOf returns a well-known document with endpoints of its own.
func wellKnownOf(federation map[string]any) string {
	text, err := json.Marshal(map[string]any{"protocol": "AIRC", "protocol_version": "0.2.0", "federation": federation})
	if err != nil {
		panic(err) // maps of strings cannot fail
	}
	return string(text)
}

// spec: airc-shapes "Requests"
func TestFederatedLookupAsksOnlyTheDiscoveryEndpoint(t *testing.T) {
	t.Parallel()
	net := newInternet()
	peer := &scripted{answers: map[string]string{
		"/.well-known/airc":             wellKnownOf(map[string]any{"discovery_endpoint": "/custom/identity"}),
		"/api/presence":                 `{"handle":"amy_1","secret":"of the peer"}`,
		"/custom/identity?handle=amy_1": `{"success":true,"secret":1,"identity":{"handle":"amy_1","status":"online","working_on":"tests","did":"did:key:z6Mkexample","secret":"of the peer","keys":[{"kid":"k_1","publicKey":"AA","status":"active","secret":2}]}}`,
	}}
	net.hosts["old.test"] = peer
	w := net.join(t, "b.test", 0x0b, peers.Config{Domain: "old.test"})
	caller := tokenlessAt(w)
	for query, want := range map[string]string{
		"registry=old.test&handle=../../../api/presence":                    "400 bad_request",
		"registry=old.test&handle=" + url.QueryEscape("x?y#z"):              "400 bad_request",
		"registry=old.test&handle=" + url.QueryEscape("%2e%2e%2fx"):         "400 bad_request",
		"registry=old.test&handle=amy_1%40evil.test":                        "400 bad_request",
		"registry=old.test&handle=":                                         "400 bad_request",
		"registry=" + url.QueryEscape("old.test/api?") + "&handle=amy_1":    "400 bad_request",
		"registry=" + url.QueryEscape("old.test@evil.test") + "&handle=amy": "400 bad_request",
		"registry=127.0.0.1&handle=amy_1":                                   "400 bad_request",
		"registry=old.test&handle=nobody":                                   "404 REMOTE_IDENTITY_NOT_FOUND",
		"registry=unknown.test&handle=amy_1":                                "403 FEDERATION_BLOCKED",
	} {
		status, answer := caller.call(t, http.MethodGet, "/federation/identity?"+query, nil)
		if got := strings.TrimSpace(fmt.Sprint(status, " ", orEmpty(answer["error"]))); got != want {
			t.Errorf("%s: %s %v, want %s", query, got, answer, want)
		}
	}
	status, answer := caller.call(t, http.MethodGet, "/federation/identity?registry=old.test&handle=@Amy-1", nil)
	identity, _ := answer["identity"].(map[string]any)
	if status != http.StatusOK || identity["handle"] != "amy_1" || identity["federated_id"] != "amy_1@old.test" || identity["working_on"] != "tests" {
		t.Errorf("identity: %d %v", status, answer)
	}
	if text := fmt.Sprint(answer); strings.Contains(text, "secret") {
		t.Errorf("the gateway passes on what it does not read: %s", text)
	}
	caller.call(t, http.MethodGet, "/federation/identity?registry=old.test&handle=amy_1", nil)
	if diff := cmp.Diff([]string{"/custom/identity?handle=amy_1", "/custom/identity?handle=nobody"}, sorted(peer.requests())); diff != "" {
		t.Errorf("requests to the peer (-want +got):\n%s", diff)
	}
}

func sorted(texts []string) []string { slices.Sort(texts); return texts }

func TestFederatedLookupInventsNoAgent(t *testing.T) {
	t.Parallel()
	_, a, _, _, _ := pair(t)
	caller := tokenlessAt(a)
	for _, path := range []string{
		"/federation/identity?registry=b.test&handle=nobody", "/federation/presence?registry=b.test&handle=nobody", "/api/federation/identity?handle=nobody",
		"/api/identity/nobody@b.test", "/api/identity/nobody@b.test/capabilities", "/api/identity/%3Fnobody@b.test", "/identity/nobody@b.test",
		"/.well-known/airc/identity/nobody@b.test", "/.well-known/airc/identity/%3Fnobody@b.test",
	} {
		if status, answer := caller.call(t, http.MethodGet, path, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %v, want 404", path, status, answer)
		}
	}
}

func TestDiscoveryEndpointsStayAtThePeer(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{
		"//evil.test/x", "https://evil.test/x", "/../x", "/a/%2e%2e/x", "/x?y=1", "/x#y", "x", "@evil.test/", "/\\evil.test", ".evil.test/x", ":80/x",
	} {
		for _, name := range []string{"discovery_endpoint", "relay_endpoint"} {
			net := newInternet()
			peer, evil := &scripted{answers: map[string]string{"/.well-known/airc": wellKnownOf(map[string]any{name: endpoint})}}, &scripted{}
			net.hosts["old.test"], net.hosts["evil.test"], net.hosts["old.test.evil.test"] = peer, evil, evil
			w := net.join(t, "b.test", 0x0b, peers.Config{Domain: "old.test"})
			status, answer := tokenlessAt(w).call(t, http.MethodGet, "/federation/identity?registry=old.test&handle=amy_1", nil)
			if status != http.StatusBadGateway || answer["error"] != "FEDERATION_UNAVAILABLE" {
				t.Errorf("%s %q: %d %v", name, endpoint, status, answer)
			}
			if asked := append(peer.requests(), evil.requests()...); len(asked) != 0 {
				t.Errorf("%s %q: the gateway asked %q", name, endpoint, asked)
			}
		}
	}
}

func TestFederatedLookupRefusesOtherAnswers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `[]`, `"amy_1"`, `<html>`, `{"handle":"zoe_3"}`, `{"identity":{"handle":"amy_1@evil.test"}}`, `{"identity":null}`,
		`{"handle":"amy_1","handle":"amy_1"}`, `{"identity":["amy_1"]}`,
	} {
		net := newInternet()
		net.hosts["old.test"] = &scripted{answers: map[string]string{
			"/.well-known/airc": wellKnownOf(nil), "/api/federation/identity?handle=amy_1": text,
		}}
		w := net.join(t, "b.test", 0x0b, peers.Config{Domain: "old.test"})
		status, answer := tokenlessAt(w).call(t, http.MethodGet, "/federation/identity?registry=old.test&handle=amy_1", nil)
		if status != http.StatusBadGateway || answer["error"] != "FEDERATION_UNAVAILABLE" {
			t.Errorf("%s: %d %v", text, status, answer)
		}
	}
}

func TestFederatedLookupsAreRateLimitedByAddress(t *testing.T) {
	t.Parallel()
	_, a, _, _, _ := pair(t)
	for _, path := range []string{"/federation/identity?registry=b.test&handle=amy_1", "/federation/presence?registry=b.test"} {
		taken := 0
		for range 100 {
			if answer := a.ask(t, "198.51.100.7:1", http.MethodGet, path, "", ""); answer.Code == http.StatusOK {
				taken++
			} else if answer.Code != http.StatusTooManyRequests || answer.Header().Get("Retry-After") == "" {
				t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
			}
		}
		if taken > 30 {
			t.Errorf("%s: %d of 100 were answered, want at most 30", path, taken)
		}
		if answer := a.ask(t, "198.51.100.8:1", http.MethodGet, path, "", ""); answer.Code != http.StatusOK {
			t.Errorf("%s from another address: %d %s", path, answer.Code, answer.Body)
		}
	}
}

// The deployed registry has neither /.well-known/airc/identity nor /federation/presence.
func TestDeployedRegistryServesIdentityAndPresence(t *testing.T) {
	t.Parallel()
	net := newInternet()
	net.hosts["old.test"] = &bridgetest.Registry{Agents: []string{"amy"}}
	caller := tokenlessAt(net.join(t, "b.test", 0x0b, peers.Config{Domain: "old.test"}))
	for path, want := range map[string]string{
		"/federation/identity?registry=old.test&handle=amy":    "200 amy@old.test",
		"/federation/identity?registry=old.test&handle=nobody": "404 ",
		"/federation/presence?registry=old.test&handle=amy":    "200 amy@old.test",
		"/federation/presence?registry=old.test&handle=nobody": "404 ",
		"/federation/presence?registry=old.test":               "200 amy@old.test",
	} {
		status, answer := caller.call(t, http.MethodGet, path, nil)
		about, _ := answer["identity"].(map[string]any)
		if seen, ok := answer["presence"].([]any); ok && len(seen) == 1 {
			about, _ = seen[0].(map[string]any)
		}
		if got := fmt.Sprint(status, " ", orEmpty(about["federated_id"])); got != want {
			t.Errorf("%s: %s %v, want %s", path, got, answer, want)
		}
	}
}
