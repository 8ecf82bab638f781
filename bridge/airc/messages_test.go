package airc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// Each case breaks one thing in an otherwise valid message.
func TestPostMessageRefusalUsesNoID(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(*bridgetest.Agent, map[string]any) {
		return func(_ *bridgetest.Agent, e map[string]any) { e[name] = value }
	}
	for name, test := range map[string]struct {
		breaks func(a *bridgetest.Agent, e map[string]any) // before signing
		spoils func(text string) string                    // after signing
		status int
		code   string
	}{
		"no token":               {breaks: func(a *bridgetest.Agent, _ map[string]any) { a.Token = "" }, status: 401, code: "unauthorized"},
		"another version":        {breaks: set("v", "0.2"), status: 400, code: "bad_request"},
		"no kid":                 {breaks: set("kid", nil), status: 400, code: "bad_request"},
		"no aud":                 {breaks: set("aud", ""), status: 400, code: "bad_request"},
		"no time":                {breaks: set("timestamp", nil), status: 400, code: "bad_request"},
		"a time with a fraction": {breaks: set("timestamp", 1.5), status: 400, code: "bad_request"},
		"a short id":             {breaks: set("id", "short"), status: 400, code: "bad_request"},
		"an id with a space":     {breaks: set("id", "0123456789 0123456789"), status: 400, code: "bad_request"},
		"a seq":                  {breaks: set("seq", 1), status: 400, code: "bad_request"},
		"a body that is no text": {breaks: set("body", 7), status: 400, code: "bad_request"},
		"a payload that is text": {breaks: set("payload", "hello"), status: 400, code: "bad_request"},
		"nothing to say":         {breaks: set("body", nil), status: 400, code: "bad_request"},
		"from another":           {breaks: set("from", "scout_8"), status: 401, code: "unauthorized"},
		"for another registry":   {breaks: set("aud", "other.example"), status: 403, code: "audience_mismatch"},
		"ten minutes old":        {breaks: set("timestamp", time.Now().Add(-10*time.Minute).Unix()), status: 401, code: "invalid_timestamp"},
		"ten minutes early":      {breaks: set("timestamp", time.Now().Add(10*time.Minute).Unix()), status: 401, code: "invalid_timestamp"},
		"an unknown kid":         {breaks: set("kid", "k_0000000000000000"), status: 401, code: "invalid_signature"},
		"signed by another key": {
			breaks: func(a *bridgetest.Agent, _ map[string]any) { a.Key = bridgetest.NewAgent("", "x", seed(9)).Key },
			status: 401, code: "invalid_signature",
		},
		"changed after signing":        {spoils: func(s string) string { return strings.Replace(s, "hello", "hallo", 1) }, status: 401, code: "invalid_signature"},
		"an unsigned member":           {spoils: func(s string) string { return `{"x":1,` + s[1:] }, status: 401, code: "invalid_signature"},
		"a member twice":               {spoils: func(s string) string { return `{"to":"mallory",` + s[1:] }, status: 400, code: "bad_request"},
		"a member in another spelling": {spoils: func(s string) string { return `{"TO":"mallory",` + s[1:] }, status: 401, code: "invalid_signature"},
		"a lone surrogate":             {spoils: func(s string) string { return strings.Replace(s, "hello", `\ud800`, 1) }, status: 400, code: "bad_request"},
		"not UTF-8":                    {spoils: func(s string) string { return strings.Replace(s, "hello", "\xff", 1) }, status: 400, code: "bad_request"},
		"no JSON":                      {spoils: func(string) string { return "hello" }, status: 400, code: "bad_request"},
		"a list":                       {spoils: func(string) string { return "[]" }, status: 400, code: "bad_request"},
		"a name of 100 kB twice": {spoils: func(s string) string {
			long := `"` + strings.Repeat("x", 100_000) + `":1,`
			return "{" + long + long + s[1:]
		}, status: 400, code: "bad_request"},
		"a name of objects":               {breaks: set("payload", map[string]any{"type": "x:y", "data": map[string]any{"__proto__": 1}}), status: 400, code: "bad_request"},
		"a payload without a type":        {breaks: set("payload", map[string]any{"data": map[string]any{"x": 1}}), status: 400, code: "bad_request"},
		"a payload whose type is no text": {breaks: set("payload", map[string]any{"type": 7}), status: 400, code: "bad_request"},
		"a payload whose type is empty":   {breaks: set("payload", map[string]any{"type": "", "data": nil}), status: 400, code: "bad_request"},
		"a payload with a type elsewhere": {breaks: set("payload", map[string]any{"Type": "ack"}), status: 400, code: "bad_request"},
		"a name of classes":               {breaks: set("payload", map[string]any{"constructor": 1}), status: 400, code: "bad_request"},
		"a name of the same":              {spoils: func(s string) string { return `{"protot\u0079pe":1,` + s[1:] }, status: 400, code: "bad_request"},
		"an id of 129":                    {breaks: set("id", strings.Repeat("a", 129)), status: 400, code: "bad_request"},
		"a time in milliseconds":          {breaks: set("timestamp", time.Now().UnixMilli()), status: 401, code: "invalid_timestamp"},
		"a time as text":                  {breaks: set("timestamp", "1787990400"), status: 400, code: "bad_request"},
		"null":                            {spoils: func(string) string { return "null" }, status: 400, code: "bad_request"},
		"nothing":                         {spoils: func(string) string { return "" }, status: 400, code: "bad_request"},
		"to nobody":                       {breaks: set("to", "nobody"), status: 404, code: "identity_not_found"},
		"to the registry":                 {breaks: set("to", "system"), status: 404, code: "identity_not_found"},
		"a payload over the limit of the recipient": {
			breaks: set("payload", payload("context:code", map[string]any{"content": strings.Repeat("x", 2000)})),
			status: 413, code: "payload_too_large",
		},
		"to one who blocked": {breaks: set("to", "hermit"), status: 403, code: "consent_blocked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scout, hermit := w.agent(t, "scout_7", 0x01), w.agent(t, "hermit", 0x05)
			w.agent(t, "planner", 0x04, func(a *bridgetest.Agent) { a.Capabilities = map[string]any{"maxPayloadSize": 1000} })
			if _, _, err := hermit.Consent(t.Context(), "scout_7", "block"); err != nil {
				t.Fatal(err)
			}
			token, key := scout.Token, scout.Key
			envelope := scout.Envelope("planner", "hello", nil)
			if test.breaks != nil {
				test.breaks(scout, envelope)
			}
			text, err := scout.Sign(envelope)
			if err != nil {
				t.Fatal(err)
			}
			if test.spoils != nil {
				text = []byte(test.spoils(string(text)))
			}
			status, answer, err := scout.Post(t.Context(), text)
			if err != nil || status != test.status || answer["error"] != test.code || answer["message"] == "" {
				t.Errorf("answered %d %v %v, want %d %s", status, answer, err, test.status, test.code)
			}
			if got := w.refusals(test.code); got != 1 || w.lines("request refused") != 1 || w.log.Len() > 2000 {
				t.Errorf("counted %v, logged %s", got, w.log)
			}
			scout.Token, scout.Key = token, key
			good := scout.Envelope("planner", "hello", nil)
			if id, ok := envelope["id"].(string); ok && len(id) == 22 {
				good["id"] = id
			}
			if text, err = scout.Sign(good); err != nil {
				t.Fatal(err)
			}
			if status, answer, err := scout.Post(t.Context(), text); err != nil || status != http.StatusAccepted {
				t.Errorf("the same id in a good message: %d %v %v", status, answer, err)
			}
		})
	}
}

func TestPostMessageUsesUpItsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	envelope := scout.Envelope("scout_7", "", nil)
	for _, test := range []struct {
		body    string
		status  int
		message string
	}{
		{"note to self", 201, ""},
		{"note to self", 409, "this message was accepted before, with the same bytes"},
		{"another note", 409, "this id was used in the last 24 hours, for other bytes"},
	} {
		envelope["body"] = test.body
		text, err := scout.Sign(envelope)
		if err != nil {
			t.Fatal(err)
		}
		status, answer, err := scout.Post(t.Context(), text)
		if err != nil || status != test.status {
			t.Fatal(status, answer, err)
		}
		if status == 409 && (answer["error"] != "duplicate_message" || answer["message"] != test.message) {
			t.Errorf("answered %v, want %q", answer, test.message)
		}
	}
}

func TestUnreadableBodiesAreCountedByReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent(t, "scout_7", 0x01)
	server := httptest.NewServer(w.mux)
	defer server.Close()
	direct := server.Client()
	defer direct.CloseIdleConnections()
	for path, want := range map[string]int{"/messages": 413, "/register": 413, "/register/challenge": 413, "/consent": 413} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(strings.Repeat(" ", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+a.Token)
		response, err := direct.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var answer map[string]any
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != want || answer["error"] != "payload_too_large" {
			t.Errorf("%s: %d %v %v", path, response.StatusCode, answer, err)
		}
		_ = response.Body.Close()
	}
	if _, _, err := a.Do(t.Context(), http.MethodPost, "/messages", []byte("{")); err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[string]float64{"size": 4, "json": 1} {
		if got := testutil.ToFloat64(w.deps.Metrics.BadInput.WithLabelValues("airc", "airc", reason)); got != want {
			t.Errorf("counted %v bodies as %s, want %v", got, reason, want)
		}
	}
}

func TestConsentBetweenAgents(t *testing.T) {
	t.Parallel()
	type reply struct {
		status  int
		answer  string // "status" of a 2xx, else "error"
		inbox   []string
		consent any
	}
	const knock, plain = "system system:handshake_request", "scout_7 "
	for name, test := range map[string]struct {
		before []string // planner's actions about scout_7, in order; "send" is a message of scout_7
		want   reply
	}{
		"none: the message is held and planner asked": {nil, reply{202, "held", []string{knock}, "pending"}},
		"pending: it is held and nobody asked again":  {[]string{"send"}, reply{202, "held", []string{knock}, "pending"}},
		"accepted: it is delivered":                   {[]string{"accept"}, reply{201, "delivered", []string{plain}, nil}},
		"accepted while one is held: both, in order":  {[]string{"send", "accept"}, reply{201, "delivered", []string{knock, plain, plain}, nil}},
		"blocked: it is refused":                      {[]string{"block"}, reply{403, "consent_blocked", nil, nil}},
		"blocked while one is held: that is gone":     {[]string{"send", "block"}, reply{403, "consent_blocked", []string{knock}, nil}},
		"accepted twice: the second changes nothing":  {[]string{"accept", "accept"}, reply{201, "delivered", []string{plain}, nil}},
		"blocked and accepted again: it is delivered": {[]string{"block", "accept"}, reply{201, "delivered", []string{plain}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
			for _, action := range test.before {
				var status int
				var answer map[string]any
				var err error
				if action == "send" {
					status, answer, err = scout.Send(t.Context(), "planner", "hello", nil)
				} else {
					status, answer, err = planner.Consent(t.Context(), "scout_7", action)
				}
				if err != nil || status >= 300 {
					t.Fatal(action, status, answer, err)
				}
			}
			status, answer, err := scout.Send(t.Context(), "planner", "hello", nil)
			if err != nil {
				t.Fatal(err)
			}
			word, _ := answer["status"].(string)
			if word == "" {
				word, _ = answer["error"].(string)
			}
			got := reply{status, word, types(inbox(t, planner)), answer["consent"]}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(reply{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOffersBetweenAgentsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	type reply struct {
		status         int
		planner, scout []string // types of their messages
	}
	for name, test := range map[string]struct {
		offers  string
		before  string // planner's action about scout_7
		payload any
		want    reply
	}{
		"hold: an offer waits for consent":   {airc.OffersHold, "", request("Fix it"), reply{202, []string{"system system:handshake_request"}, nil}},
		"deliver: an offer arrives":          {airc.OffersDeliver, "", request("Fix it"), reply{201, []string{"scout_7 task:request"}, []string{"planner ack"}}},
		"deliver: text waits for consent":    {airc.OffersDeliver, "", nil, reply{202, []string{"system system:handshake_request"}, nil}},
		"deliver: a blocked sender stays so": {airc.OffersDeliver, "block", request("Fix it"), reply{403, nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = test.offers })
			scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
			if test.before != "" {
				if status, answer, err := planner.Consent(t.Context(), "scout_7", test.before); err != nil || status >= http.StatusMultipleChoices {
					t.Fatal(status, answer, err)
				}
			}
			status, answer, err := scout.Send(t.Context(), "planner", "please", test.payload)
			if err != nil {
				t.Fatal(err)
			}
			got := reply{status, types(inbox(t, planner)), nil}
			if status == http.StatusCreated {
				id, _ := answer["id"].(string)
				if status, answer, err := planner.Send(t.Context(), "scout_7", "", ack(id, "received")); err != nil || status != http.StatusCreated {
					t.Error(status, answer, err)
				}
				got.scout = types(inbox(t, scout))
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(reply{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPostMessageWithoutHandoffIsPlain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	if _, _, err := planner.Consent(t.Context(), "scout_7", "accept"); err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string]any{
		"an ack of a message":         ack("0123456789abcdef", "received"),
		"a result of a foreign ULID":  result("01K9ZQ0000000000000000000Z", "completed"),
		"a status of later versions":  ack("0123456789abcdef", "unsupported_payload"),
		"a payload of another family": payload("context:code", map[string]any{"file": "x.go"}),
	} {
		status, answer, err := scout.Send(t.Context(), "planner", "", payload)
		if err != nil || status != http.StatusCreated || answer["handoff"] != nil {
			t.Errorf("%s: %d %v %v", name, status, answer, err)
		}
	}
	explicit := payload("at.freeq:handoff", map[string]any{"event": "progress", "handoff": map[string]any{"id": "01K9ZQ0000000000000000000Z"}})
	if status, answer, err := scout.Send(t.Context(), "planner", "", explicit); err != nil || status != http.StatusNotFound || answer["error"] != "unknown_handoff" {
		t.Errorf("a step of an unknown handoff: %d %v %v", status, answer, err)
	}
}

func TestConsentAnswersWithTheEdge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	w.agent(t, "planner", 0x04)
	for _, version := range []float64{1, 1} { // the second changes nothing
		status, answer, err := scout.Consent(t.Context(), "planner", "accept")
		if err != nil || status != http.StatusOK {
			t.Fatal(status, answer, err)
		}
		if answer["updatedAt"].(float64) < 1e9 {
			t.Errorf("updated at %v", answer["updatedAt"])
		}
		delete(answer, "updatedAt")
		if diff := cmp.Diff(map[string]any{"from": "planner", "to": "scout_7", "state": "accepted", "version": version}, answer); diff != "" {
			t.Error(diff)
		}
	}
	for name, test := range map[string]struct {
		handle, action string
		status         int
		code           string
	}{
		"an unknown action": {"planner", "request", 400, "bad_request"},
		"no action":         {"planner", "", 400, "bad_request"},
		"no handle":         {"", "accept", 400, "bad_request"},
		"nobody":            {"nobody", "accept", 404, "identity_not_found"},
	} {
		if status, answer, err := scout.Consent(t.Context(), test.handle, test.action); err != nil || status != test.status || answer["error"] != test.code {
			t.Errorf("%s: %d %v %v", name, status, answer, err)
		}
	}
}

func TestInboxIsReadInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	page := func(query string) (bodies []string, next string, more bool) {
		t.Helper()
		status, answer, err := scout.Call(t.Context(), http.MethodGet, "/messages/inbox"+query, nil)
		if err != nil || status != http.StatusOK {
			t.Fatal(status, answer, err)
		}
		for _, m := range answer["messages"].([]any) {
			bodies = append(bodies, m.(map[string]any)["body"].(string))
		}
		return bodies, answer["nextCursor"].(string), answer["hasMore"].(bool)
	}
	if bodies, next, more := page(""); bodies != nil || next != "" || more {
		t.Errorf("an empty inbox holds %v %q %v", bodies, next, more)
	}
	for i := range 120 {
		if status, answer, err := scout.Send(t.Context(), "scout_7", fmt.Sprint(i), nil); err != nil || status != http.StatusCreated {
			t.Fatal(status, answer, err)
		}
	}
	first, next, more := page("")
	if len(first) != 50 || first[0] != "0" || !more {
		t.Errorf("the first page is %v %v", first, more)
	}
	if again, same, _ := page(""); !slices.Equal(first, again) || same != next {
		t.Error("reading again gave another page")
	}
	second, last, more := page("?limit=1000&cursor=" + next)
	if len(second) != 70 || second[69] != "119" || more {
		t.Errorf("the second page is %v %v", second, more)
	}
	if rest, end, more := page("?cursor=" + last); rest != nil || end != last || more {
		t.Errorf("after the last: %v %q %v", rest, end, more)
	}
	if few, _, _ := page("?limit=1000"); len(few) != 100 {
		t.Errorf("a page of 1000 has %d", len(few))
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?limit=-1", "?cursor=none"} {
		if status, answer, err := scout.Call(t.Context(), http.MethodGet, "/messages/inbox"+query, nil); err != nil || status != 400 || answer["error"] != "bad_request" {
			t.Errorf("%s: %d %v %v", query, status, answer, err)
		}
	}
}

func TestInboxReturnsMessagesAsSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	envelope := scout.Envelope("scout_7", "<b> & \u2028", map[string]any{"type": "x:y", "n": 1})
	envelope["nonce"] = "unknown members are carried"
	text, err := scout.Sign(envelope)
	if err != nil {
		t.Fatal(err)
	}
	text = append([]byte(" \n{ "), text[1:]...) // white space is not signed, and kept
	if status, answer, err := scout.Post(t.Context(), text); err != nil || status != http.StatusCreated || answer["seq"] != 1.0 {
		t.Fatal(status, answer, err)
	}
	raws, _, err := scout.Inbox(t.Context(), "")
	if err != nil || len(raws) != 1 {
		t.Fatal(raws, err)
	}
	if got, want := string(raws[0]), `{"seq":1,`+string(text[3:]); got != want {
		t.Errorf("read\n%s, want\n%s", got, want)
	}
}
