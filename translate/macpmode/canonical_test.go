package macpmode_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

func TestCanonicalEnvelope(t *testing.T) {
	t.Parallel()
	env := envelope(t, macpmode.TypeOffer, "m1", "did:plc:eliza", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: "scholar"})
	text, err := macpmode.JSON(env)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"macp_version":"1.0","message_id":"m1","message_type":"HandoffOffer","mode":"macp.mode.handoff.v1","payload_b64":"CgJoMRIHc2Nob2xhcg==",` +
		`"sender":"did:plc:eliza","session_id":"6f0d2c1e-8a55-4b7e-9d0a-2f6d5f1f7a10","timestamp":"2026-06-01T12:00:00.000Z"}`
	if string(text) != want {
		t.Errorf("written:\n%s\nwant:\n%s", text, want)
	}
	for _, form := range []string{want, `{"macp_version":"1.0","message_id":"m1","message_type":"HandoffOffer","mode":"macp.mode.handoff.v1","sender":"did:plc:eliza",
		"session_id":"6f0d2c1e-8a55-4b7e-9d0a-2f6d5f1f7a10","timestamp":"2026-06-01T14:00:00+02:00","later":{},"payload":{"handoff_id":"h1","target_participant":"scholar"}}`} {
		var read macpv1.Envelope
		if err := macpmode.ReadJSON([]byte(form), &read); err != nil || !proto.Equal(&read, env) {
			t.Errorf("read: %v, %v", &read, err)
		}
	}
}

func TestCanonicalRefusesOtherJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `[]`, `{"envelope":{"payload":{},"payload_b64":""}}`, `{"envelope":{"timestamp":"yesterday"}}`, `{"envelope":{"message_type":"Foo","payload":{}}}`} {
		if err := macpmode.ReadJSON([]byte(text), &macpv1.SendRequest{}); code(err) != "INVALID_REQUEST" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCanonicalNumbersAndRules(t *testing.T) {
	t.Parallel()
	text, err := macpmode.JSON(&macpv1.SessionMetadata{State: macpv1.SessionState_SESSION_STATE_OPEN, ExpiresAtUnixMs: begun})
	var m map[string]any
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil || m["state"] != "SESSION_STATE_OPEN" || m["expires_at_unix_ms"] != float64(begun) || m["context_id"] != "" {
		t.Errorf("%s, %v", text, err)
	}
	policy := &macpv1.PolicyDescriptor{PolicyId: "policy.x.y", Rules: `{"commitment":{}}`}
	if text, err = macpmode.JSON(policy); err != nil {
		t.Fatal(err)
	}
	var read macpv1.PolicyDescriptor
	if err := macpmode.ReadJSON(text, &read); err != nil || !proto.Equal(&read, policy) {
		t.Errorf("%s is read as %v, %v", text, &read, err)
	}
}

// The example of the protocol is a list of envelopes with payloads as JSON.
func TestCanonicalMatchesTheExampleSession(t *testing.T) {
	t.Parallel()
	dir := vectors(t)
	if dir == "" {
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, "handoff-mode-session.json"))
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(text, &example); err != nil || len(example.Messages) < 5 {
		t.Fatalf("%d messages, %v", len(example.Messages), err)
	}
	for _, each := range example.Messages {
		var env macpv1.Envelope
		if err := macpmode.ReadJSON(each, &env); err != nil {
			t.Errorf("%v: %s", err, each)
		}
		if err := macpmode.CheckShape(&env); err != nil {
			t.Errorf("%v: %s", err, each)
		}
	}
}
