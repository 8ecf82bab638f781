//go:build interop

package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// decodeOutcome reads an answer of the registry, which is JSON whatever it says.
func decodeOutcome(t *testing.T, response *http.Response) outcome {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got outcome
	if err := json.Unmarshal(body, &got); err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		t.Errorf("%d %s (%s): %v", response.StatusCode, body, response.Header.Get("Content-Type"), err)
	}
	got.Status = response.StatusCode
	return got
}

// threeAgents is a gateway without a network, and three agents: rita and sam know each
// other, zoe blocked rita.
type threeAgents struct {
	*world
	rita, sam, zoe *mailbox
}

func newThreeAgents(t *testing.T, tables ...string) *threeAgents {
	t.Helper()
	h := newHouse(t, tables...)
	h.start(t)
	r := &threeAgents{world: &world{house: h}}
	r.rita, r.sam, r.zoe = r.hire(t, "rita_1"), r.hire(t, "sam_2"), r.hire(t, "zoe_3")
	for _, edge := range []struct {
		agent          *mailbox
		handle, action string
	}{{r.sam, "rita_1", "accept"}, {r.rita, "sam_2", "accept"}, {r.zoe, "rita_1", "block"}} {
		status, answer, err := edge.agent.Consent(t.Context(), edge.handle, edge.action)
		if err != nil || status != http.StatusOK {
			t.Fatalf("consent: %d %v %v", status, answer, err)
		}
	}
	return r
}

// envelope returns a message of rita to sam, signed, of which some members are
// others; nil takes a member away.
func (r *threeAgents) envelope(t *testing.T, changes map[string]any) []byte {
	t.Helper()
	envelope := r.rita.Envelope("sam_2", "hello", nil)
	for name, value := range changes {
		envelope[name] = value
		if value == nil {
			delete(envelope, name)
		}
	}
	return write(t, r.rita.Agent, envelope)
}

// spec: airc-v0.1.1 §11.5
func TestAIRCErrorCodesHaveTheirStatus(t *testing.T) {
	t.Parallel()
	r := newThreeAgents(t, "[limits]\nregistrations_per_hour = 5\ninbox_events = 2\n")
	nobody := &mailbox{Agent: bridgetest.NewAgent(r.url(), "nobody_4", newPerson(t).key.Seed())}
	stale := &mailbox{Agent: bridgetest.NewAgent(r.url(), "rita_1", r.rita.Key.Seed())}
	stale.Token = r.forge(t, r.rita.Token, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})
	odd := r.rita.Envelope("sam_2", "hello", nil)
	used := r.envelope(t, map[string]any{"id": odd["id"]})
	if got, _ := exchangeHTTP(t, r.rita, http.MethodPost, "/messages", used); got.Status != http.StatusCreated {
		t.Fatalf("a message is answered %+v", got)
	}
	forged := []byte(strings.Replace(string(r.envelope(t, nil)), `"hello"`, `"hullo"`, 1))
	long := strings.Repeat("x", 70_000)
	for _, tt := range []struct {
		code   string
		name   string
		status int
		from   *mailbox
		path   string // POST
		body   []byte
	}{
		{"bad_request", "no JSON", 400, r.rita, "/messages", []byte("{")},
		{"bad_request", "a member is missing", 400, r.rita, "/messages", r.envelope(t, map[string]any{"kid": nil})},
		{"bad_request", "another version", 400, r.rita, "/messages", r.envelope(t, map[string]any{"v": "0.2"})},
		{"bad_request", "a sequence of the sender's", 400, r.rita, "/messages", r.envelope(t, map[string]any{"seq": 1})},
		{"bad_request", "a member __proto__", 400, r.rita, "/messages", r.envelope(t, map[string]any{"__proto__": map[string]any{"admin": true}})},
		{"bad_request", "a member prototype deep inside", 400, r.rita, "/messages", r.envelope(t, map[string]any{"payload": payload("x", map[string]any{"a": []any{map[string]any{"prototype": 1}}})})},
		{"unauthorized", "no token", 401, nobody, "/messages", r.envelope(t, nil)},
		{"unauthorized", "somebody else's token", 401, r.sam, "/messages", r.envelope(t, nil)},
		{"invalid_signature", "other bytes", 401, r.rita, "/messages", forged},
		{"invalid_signature", "a key that is nobody's", 401, r.rita, "/messages", r.envelope(t, map[string]any{"kid": "k_0123456789abcdef"})},
		{"invalid_timestamp", "six minutes old", 401, r.rita, "/messages", r.envelope(t, map[string]any{"timestamp": time.Now().Add(-6 * time.Minute).Unix()})},
		{"challenge_invalid", "not given out", 401, nobody, "/register", encode(t, nobody.Registration(base64.RawURLEncoding.EncodeToString(make([]byte, 32))))},
		{"challenge_invalid", "signed by another key", 401, nobody, "/register", r.registration(t, nobody, r.challenge(t, "nobody_4"), r.sam.Agent)},
		{"challenge_expired", "six minutes old", 401, nobody, "/register", r.registration(t, nobody, r.oldChallenge(t, "nobody_4"), nobody.Agent)},
		{"token_expired", "", 401, stale, "/messages", r.envelope(t, nil)},
		{"consent_blocked", "", 403, r.rita, "/messages", r.envelope(t, map[string]any{"to": "zoe_3"})},
		{"audience_mismatch", "", 403, r.rita, "/messages", r.envelope(t, map[string]any{"aud": "other.test"})},
		{"identity_not_found", "", 404, r.rita, "/messages", r.envelope(t, map[string]any{"to": "nobody_4"})},
		{"handle_taken", "", 409, nobody, "/register", r.registration(t, &mailbox{Agent: bridgetest.NewAgent(r.url(), "rita_1", nobody.Key.Seed())}, r.challenge(t, "rita_1"), nobody.Agent)},
		{"duplicate_message", "", 409, r.rita, "/messages", used},
		{"payload_too_large", "", 413, r.rita, "/messages", r.envelope(t, map[string]any{"payload": payload("x", map[string]any{"x": long})})},
		{"invalid_handle", "characters", 422, nobody, "/register/challenge", encode(t, map[string]any{"handle": "No Body"})},
		{"invalid_handle", "a reserved prefix", 422, nobody, "/register/challenge", encode(t, map[string]any{"handle": "key_" + strings.Repeat("a", 26)})},
	} {
		t.Run(strings.TrimSpace(tt.code+" "+tt.name), func(t *testing.T) {
			got, _ := exchangeHTTP(t, tt.from, http.MethodPost, tt.path, tt.body)
			if got.Status != tt.status || got.Error != tt.code || got.Message == "" {
				t.Errorf("answered %+v, want %d %s", got, tt.status, tt.code)
			}
		})
	}
	t.Run("rate_limited", func(t *testing.T) { r.registerUntilRefused(t) })
	t.Run("recipient_over_capacity", func(t *testing.T) { r.fill(t) })
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (r *threeAgents) challenge(t *testing.T, handle string) string {
	t.Helper()
	nobody := bridgetest.NewAgent(r.url(), handle, newPerson(t).key.Seed())
	status, answer, err := nobody.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": handle})
	if err != nil || status != http.StatusOK {
		t.Fatalf("challenge: %d %v %v", status, answer, err)
	}
	text, _ := answer["challenge"].(string)
	return text
}

// registration returns the registration of an agent with the answer that the key of
// another gives to a challenge.
func (r *threeAgents) registration(t *testing.T, agent *mailbox, challenge string, signer *bridgetest.Agent) []byte {
	t.Helper()
	body := agent.Registration(challenge)
	body["challengeSignature"] = signer.Registration(challenge)["challengeSignature"]
	return encode(t, body)
}

// registerUntilRefused registers agents until one is too many from one address.
func (r *threeAgents) registerUntilRefused(t *testing.T) {
	t.Helper()
	const enough = 6
	for i := range enough {
		handle := fmt.Sprintf("extra_%d", i)
		agent := &mailbox{Agent: bridgetest.NewAgent(r.url(), handle, newPerson(t).key.Seed())}
		if agent.Register(t.Context()) == nil {
			continue
		}
		got, header := exchangeHTTP(t, agent, http.MethodPost, "/register/challenge", encode(t, map[string]any{"handle": handle}))
		if got.Status != http.StatusTooManyRequests || got.Error != "rate_limited" || got.Message == "" || header.Get("Retry-After") == "" {
			t.Errorf("answered %+v, Retry-After %q", got, header.Get("Retry-After"))
		}
		return
	}
	t.Errorf("%d agents more were registered", enough)
}

// fill writes to one agent until its quota is used up.
func (r *threeAgents) fill(t *testing.T) {
	t.Helper()
	for range 5 {
		got, header := exchangeHTTP(t, r.rita, http.MethodPost, "/messages", r.envelope(t, nil))
		if got.Status == http.StatusCreated {
			continue
		}
		if got.Status != http.StatusTooManyRequests || got.Error != "recipient_over_capacity" || header.Get("Retry-After") == "" {
			t.Errorf("answered %+v, Retry-After %q", got, header.Get("Retry-After"))
		}
		r.sam.next(t, "the first message", func(m message) bool { return m.Body == "hello" })
		if got, _ := exchangeHTTP(t, r.rita, http.MethodPost, "/messages", r.envelope(t, nil)); got.Status != http.StatusCreated {
			t.Errorf("after the recipient read, answered %+v", got)
		}
		return
	}
	t.Error("five messages wait, want at most two")
}

func TestAIRCUnknownPathsAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	r := newThreeAgents(t)
	for _, tt := range []struct {
		method, path string
		want         outcome
	}{
		{http.MethodGet, "/nowhere", outcome{Status: 404, Error: "not_found"}},
		{http.MethodGet, "/evidence/" + strings.Repeat("0", 64), outcome{Status: 404, Error: "not_found"}},
		{http.MethodPost, "/messages/none/ack", outcome{Status: 404, Error: "not_found"}},
		{http.MethodDelete, "/messages/none", outcome{Status: 404, Error: "not_found"}},
		{http.MethodPut, "/messages", outcome{Status: 405, Error: "method_not_allowed"}},
		{http.MethodGet, "/messages/inbox?cursor=none", outcome{Status: 400, Error: "bad_request"}},
		{http.MethodGet, "/identity/nobody_4", outcome{Status: 404, Error: "identity_not_found"}},
		{http.MethodGet, "/messages/thread/nobody_4", outcome{Status: 404, Error: "identity_not_found"}},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			got, header := exchangeHTTP(t, r.rita, tt.method, tt.path, nil)
			if got.Message == "" {
				t.Error("no sentence")
			}
			got.Message = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if tt.want.Status == http.StatusMethodNotAllowed && header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
}
