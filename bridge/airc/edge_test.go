package airc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

func TestRefusalsHaveStatusAndCode(t *testing.T) {
	t.Parallel()
	type edge struct {
		status int
		code   string
		retry  string
	}
	refusal := func(code federation.RefusalCode) error {
		return fmt.Errorf("judge: %w", &federation.RefusalError{Code: code, Detail: "detail"})
	}
	for name, test := range map[string]struct {
		err  error
		want edge
	}{
		"need-signature":         {refusal(federation.NeedSignature), edge{401, "invalid_signature", ""}},
		"signature-invalid":      {refusal(federation.SignatureInvalid), edge{401, "invalid_signature", ""}},
		"signature-unverifiable": {refusal(federation.SignatureUnverifiable), edge{503, "unavailable", "5"}},
		"actor-mismatch":         {refusal(federation.ActorMismatch), edge{401, "unauthorized", ""}},
		"wrong-sender":           {refusal(federation.WrongSender), edge{403, "wrong_sender", ""}},
		"unknown-verb":           {refusal(federation.UnknownVerb), edge{400, "unsupported_payload", ""}},
		"unknown-handoff":        {refusal(federation.UnknownHandoff), edge{404, "unknown_handoff", ""}},
		"illegal-step":           {refusal(federation.IllegalStep), edge{409, "illegal_step", ""}},
		"terminal-handoff":       {refusal(federation.TerminalHandoff), edge{409, "terminal_handoff", ""}},
		"deadline-passed":        {refusal(federation.DeadlinePassed), edge{409, "deadline_passed", ""}},
		"eventid-in-use":         {refusal(federation.EventIDInUse), edge{409, "duplicate_message", ""}},
		"invalid-eventid":        {refusal(federation.InvalidEventID), edge{400, "bad_request", ""}},
		"eventid-clock-skew":     {refusal(federation.EventIDClockSkew), edge{401, "invalid_timestamp", ""}},
		"invalid-context":        {refusal(federation.InvalidContext), edge{400, "bad_request", ""}},
		"invalid-target":         {refusal(federation.InvalidTarget), edge{400, "bad_request", ""}},
		"invalid-tag":            {refusal(federation.InvalidTag), edge{400, "bad_request", ""}},
		"wrong-reference":        {refusal(federation.WrongReference), edge{400, "bad_request", ""}},
		"missing-requirement":    {refusal(federation.MissingRequirement), edge{400, "bad_request", ""}},
		"wrong-venue":            {refusal(federation.WrongVenue), edge{403, "wrong_venue", ""}},
		"duplicate-tag":          {refusal(federation.DuplicateTag), edge{400, "bad_request", ""}},
		"mixed-tags":             {refusal(federation.MixedTags), edge{400, "bad_request", ""}},
		"replaces-not-terminal":  {refusal(federation.ReplacesNotTerminal), edge{409, "illegal_step", ""}},
		"unknown-kind":           {refusal(federation.UnknownKind), edge{400, "unsupported_payload", ""}},
		"policy-denied":          {refusal(federation.PolicyDenied), edge{403, "policy_denied", ""}},
		"missing-capability":     {refusal(federation.MissingCapability), edge{403, "missing_capability", ""}},
		"quota-exceeded":         {refusal(federation.QuotaExceeded), edge{429, "rate_limited", "60"}},
		"inbox-full":             {refusal(federation.InboxFull), edge{429, "recipient_over_capacity", "60"}},
		"rate-limited": {
			&federation.RefusalError{Code: federation.RateLimited, RetryAfter: 1100 * time.Millisecond}, edge{429, "rate_limited", "2"},
		},
		"a not-now": {
			&federation.UnavailableError{What: "record", Err: errors.New("secret path"), RetryAfter: 1500 * time.Millisecond},
			edge{503, "unavailable", "2"},
		},
		"a client that went away": {context.Canceled, edge{503, "unavailable", "5"}},
		"a mistake of ours":       {errors.New("secret path"), edge{500, "internal", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scout := w.agent(t, "scout_7", 0x01)
			id := w.offer(t, alice, scout.DID)
			w.gateway.refuse = test.err
			text, err := scout.Sign(scout.Envelope(wire.Handle(alice.DID), "", ack(id.String(), "received")))
			if err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/messages", strings.NewReader(string(text)))
			request.Header.Set("Authorization", "bearer "+scout.Token)
			recorder := httptest.NewRecorder()
			w.mux.ServeHTTP(recorder, request)
			body := recorder.Body.String()
			if !strings.Contains(body, `{"error":"`+test.want.code+`","message":"`) || recorder.Code != test.want.status {
				t.Errorf("answered %d %s, want %+v", recorder.Code, body, test.want)
			}
			if got := recorder.Header().Get("Retry-After"); got != test.want.retry {
				t.Errorf("Retry-After is %q, want %q", got, test.want.retry)
			}
			if strings.Contains(body, "secret") {
				t.Errorf("answered %s", body)
			}
			counted := 1.0
			if test.want.status >= 500 {
				counted = 0
			}
			if got := w.refusals(test.want.code); got != counted {
				t.Errorf("counted %v, want %v", got, counted)
			}
		})
	}
}

func TestUnknownPathsAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.stranger("scout_7", 0x01)
	for _, test := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/", 404, "not_found"},
		{"GET", "/nothing/here", 404, "not_found"},
		{"PUT", "/presence", 405, "method_not_allowed"},
		{"DELETE", "/messages/0123456789abcdef", 401, "unauthorized"},
		{"GET", "/messages/0123456789abcdef/ack", 405, "method_not_allowed"},
		{"POST", "/messages/thread/scout_7", 405, "method_not_allowed"},
		{"GET", "/auth/refresh", 405, "method_not_allowed"},
		{"GET", "/messages", 405, "method_not_allowed"},
		{"POST", "/messages/inbox", 405, "method_not_allowed"},
		{"DELETE", "/consent", 405, "method_not_allowed"},
		{"PUT", "/register", 405, "method_not_allowed"},
		{"POST", "/identity/scout_7", 405, "method_not_allowed"},
		{"GET", "/evidence/xyz", 404, "not_found"},
		{"GET", "/evidence/" + strings.Repeat("AB", 32), 404, "not_found"},
		{"GET", "/evidence/" + strings.Repeat("ab", 32), 404, "not_found"},
		{"GET", "/evidence/" + strings.Repeat("ab", 33), 404, "not_found"},
	} {
		status, answer, err := a.Call(t.Context(), test.method, test.path, nil)
		if err != nil || status != test.status || answer["error"] != test.code || answer["message"] == "" {
			t.Errorf("%s %s: %d %v %v, want %d %s", test.method, test.path, status, answer, err, test.status, test.code)
		}
	}
}

func TestRegistryDocumentNamesItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status, answer, err := w.stranger("scout_7", 0x01).Call(t.Context(), http.MethodGet, "/.well-known/airc/registry.json", nil)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	if diff := cmp.Diff(map[string]any{
		"domain": "gw.example", "name": "Baton", "kid": "reg_6a3803d5f059902a",
		"publicKey": "gTl3Dqh9F19Wo1Rmw0x-zMuNipG07jeiXfYPW4_Js5Q",
		"keys": []any{map[string]any{
			"kid": "reg_6a3803d5f059902a", "publicKey": "gTl3Dqh9F19Wo1Rmw0x-zMuNipG07jeiXfYPW4_Js5Q", "status": "active",
			"createdAt": 1.79e+09, "expiresAt": nil, "revokedAt": nil,
		}},
	}, answer); diff != "" {
		t.Error(diff)
	}
}

func TestRegistrySignsWithItsFirstKey(t *testing.T) {
	t.Parallel()
	before := time.Now()
	w := newWorld(t)
	next, err := w.deps.Keyring.Rotate(identity.RegistryKey, 24*time.Hour, before)
	if err != nil {
		t.Fatal(err)
	}
	scout := w.agent(t, "scout_7", 0x01) // reads the document
	if want := signing.RegistryKeyID(next.Public); scout.RegistryKeyID != want {
		t.Errorf("the document names %s, want %s", scout.RegistryKeyID, want)
	}
	_, answer, err := scout.Call(t.Context(), http.MethodGet, "/.well-known/airc/registry.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, key := range answer["keys"].([]any) {
		key := key.(map[string]any)
		states = append(states, fmt.Sprintf("%v %v %v", key["status"], key["createdAt"], key["expiresAt"]))
	}
	at := func(when time.Time) float64 { return float64(when.Unix()) }
	want := []string{fmt.Sprintf("active %v <nil>", at(before)), fmt.Sprintf("pending 1.79e+09 %v", at(before.Add(24*time.Hour)))}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Error(diff)
	}
	w.offer(t, alice, scout.DID)
	raws, _, err := scout.Inbox(t.Context(), "")
	if err != nil || len(raws) != 1 {
		t.Fatal(raws, err)
	}
	if err := scout.Verify(raws[0]); err != nil {
		t.Error(err)
	}
}

func TestErrorsRevealNothingPrivate(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-planted"
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	for _, text := range []string{
		`{"v":"` + secret + `"}`, `{"` + secret, `[` + secret + `]`,
	} {
		_, answer, err := scout.Do(t.Context(), http.MethodPost, "/messages", []byte(text))
		if err != nil || strings.Contains(string(answer), secret) {
			t.Errorf("%s: answered %s %v", text, answer, err)
		}
	}
	if _, _, err := scout.Send(t.Context(), "nobody", secret, payload(secret, map[string]any{"x": secret})); err != nil {
		t.Fatal(err)
	}
	scout.Token += secret
	if _, _, err := scout.Inbox(t.Context(), secret); err == nil {
		t.Error("a wrong token was taken")
	}
	if strings.Contains(w.log.String(), secret) || strings.Contains(w.log.String(), "eyJ") {
		t.Error(w.log)
	}
	if w.lines("request refused") != 5 {
		t.Error(w.log)
	}
}

func TestDeferredStepIsReportedAsHeld(t *testing.T) {
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	id := w.offer(t, alice, scout.DID)
	w.gateway.refuse = &federation.RefusalError{Code: federation.SignatureUnverifiable, Waits: true}
	status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", ack(id.String(), "received"))
	handoff, _ := answer["handoff"].(map[string]any)
	if err != nil || status != http.StatusAccepted || answer["status"] != "held" || answer["consent"] != nil || handoff["id"] != id.String() {
		t.Errorf("answered %d %v, %v", status, answer, err)
	}
}
