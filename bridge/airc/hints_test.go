package airc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// A client library that never makes the consent call reads which call delivers its messages.
func TestHeldMessageNamesTheDeliveringCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	w.agent(t, "planner", 0x04)
	_, answer, err := scout.Send(t.Context(), "planner", "hello", nil)
	if err != nil {
		t.Fatal(err)
	}
	if said, _ := answer["message"].(string); answer["status"] != "held" || !strings.Contains(said, `POST /consent {"action":"accept","handle":"scout_7"}`) {
		t.Errorf("a held message is answered %v", answer)
	}
	me, alice := w.newcomer(t, "me_me", nil), w.newcomer(t, "alice_1", nil)
	_, sent := alice.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "me_me", "body": "hello"})
	call := `POST /api/consent {"action":"accept","handle":"alice_1"}`
	if said, _ := sent["notice"].(string); sent["pendingConsent"] != true || !strings.Contains(said, call) {
		t.Errorf("below /api it is answered %v", sent)
	}
	_, polled := me.call(t, http.MethodGet, "/api/messages?user=me_me", nil)
	if read := texts(polled, "messages"); len(read) != 1 || !strings.Contains(read[0], strings.TrimPrefix(call, "POST /api/consent ")) || !strings.Contains(read[0], "/api/consent") {
		t.Errorf("its recipient polls %q", read)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(strings.TrimPrefix(call, "POST /api/consent ")), &body); err != nil {
		t.Fatal(err)
	}
	if status, answer := me.call(t, http.MethodPost, "/api/consent", body); status != http.StatusOK {
		t.Fatalf("the call that it names is answered %d %v", status, answer)
	}
	if _, polled = me.call(t, http.MethodGet, "/api/messages?user=me_me", nil); len(texts(polled, "messages")) != 1 {
		t.Errorf("after it the recipient polls %q", texts(polled, "messages"))
	}
}

func TestConsentRefusalNamesTheRemedy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	hermit := w.agent(t, "hermit", 0x05)
	if _, _, err := hermit.Consent(t.Context(), "scout_7", "block"); err != nil {
		t.Fatal(err)
	}
	status, answer, err := scout.Send(t.Context(), "hermit", "hello", nil)
	if said, _ := answer["message"].(string); err != nil || status != http.StatusForbidden || !strings.Contains(said, `POST /consent {"action":"unblock","handle":"scout_7"}`) {
		t.Errorf("to an agent that blocked: %d %v %v", status, answer, err)
	}
	for i := range 11 {
		to := w.agent(t, fmt.Sprintf("other_%d", i), byte(0x10+i))
		if status, answer, err = scout.Send(t.Context(), to.Handle, "hello", nil); err != nil {
			t.Fatal(err)
		}
	}
	if said, _ := answer["message"].(string); status != http.StatusTooManyRequests || !strings.Contains(said, `POST /consent {"action":"accept","handle":"scout_7"}`) {
		t.Errorf("to the eleventh stranger: %d %v", status, answer)
	}
}

func TestDeployedPayloadNeedsATypeOrText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, alice := w.newcomer(t, "me_me", nil), w.newcomer(t, "alice_1", nil)
	know(t, me, alice)
	for text, want := range map[string]int{
		`{"to":"me_me","body":"hello","payload":{"x":1}}`:                     http.StatusBadRequest,
		`{"to":"me_me","body":"hello","payload":{"type":""}}`:                 http.StatusBadRequest,
		`{"to":"me_me","payload":{"data":{"x":1}}}`:                           http.StatusBadRequest,
		`{"to":"me_me","body":"hello","payload":{"type":"a:b","data":{}}}`:    http.StatusCreated,
		`{"to":"me_me","body":"hello","type":"a:b","payload":{"x":1}}`:        http.StatusCreated,
		`{"to":"me_me","payload":{"content":"hello"}}`:                        http.StatusCreated,
		`{"to":"me_me","body":"hello","payload":{"type":"a:b","n":1e300}}`:    http.StatusCreated,
		`{"to":"me_me","body":"hello","payload":{"type":"a:b","n":1e999}}`:    http.StatusBadRequest,
		`{"to":"me_me","body":"hello","payload":{"type":"a:b","type":"c:d"}}`: http.StatusBadRequest,
	} {
		if status, answer := alice.call(t, http.MethodPost, "/api/messages", json.RawMessage(text)); status != want {
			t.Errorf("%s is answered %d %v, want %d", text, status, answer, want)
		}
	}
}

// spec: RFC 8785 §3.2.2.3
func TestSignedMessageWithLargeNumbersIsVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	consents(t, planner, scout)
	for _, n := range []string{"9007199254740993", "18446744073709551615", "1e21", "-1.7976931348623157e308"} {
		envelope := scout.Envelope("planner", "hello", json.RawMessage(`{"type":"x:y","data":{"n":`+n+`}}`))
		text, err := scout.Sign(envelope)
		if err != nil {
			t.Fatal(err)
		}
		status, answer, err := scout.Post(t.Context(), text)
		if err != nil || status != http.StatusCreated {
			t.Errorf("%s: answered %d %v %v", n, status, answer, err)
		}
	}
}

// consents lets an agent take messages of others.
func consents(t *testing.T, agent *bridgetest.Agent, others ...*bridgetest.Agent) {
	t.Helper()
	for _, other := range others {
		if status, _, err := agent.Consent(t.Context(), other.Handle, "accept"); err != nil || status != http.StatusOK {
			t.Fatal(status, err)
		}
	}
}
