package airc_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// client is one of today's: it has a token and knows the paths below /api.
type client struct {
	*world

	name, token string
}

// call sends one request and returns the answer.
func (c *client) call(t *testing.T, method, path string, body any, headers ...string) (status int, answer map[string]any) {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	request := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(text))
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	c.mux.ServeHTTP(recorder, request)
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %s", method, path, recorder.Body)
	}
	if want := recorder.Code < 400; (answer["success"] == true) != want {
		t.Errorf("%s %s: %d with success %v", method, path, recorder.Code, answer["success"])
	}
	if text, flat := answer["error"].(string); recorder.Code >= 400 && (!flat || text == "") {
		t.Errorf("%s %s: error is %v, want a flat text", method, path, answer["error"])
	}
	return recorder.Code, answer
}

// newcomer registers a client; body holds other members.
func (w *world) newcomer(t *testing.T, name string, body map[string]any, headers ...string) *client {
	t.Helper()
	c := &client{world: w, name: name}
	said := map[string]any{"action": "register", "username": name, "workingOn": "testing"}
	maps.Copy(said, body)
	status, answer := c.call(t, http.MethodPost, "/api/presence", said, headers...)
	if status != http.StatusCreated || answer["registered"] != true {
		t.Fatalf("register %s: %d %v", name, status, answer)
	}
	c.token, _ = answer["token"].(string)
	return c
}

// know lets two clients write to each other.
func know(t *testing.T, a, b *client) {
	t.Helper()
	for c, other := range map[*client]string{a: b.name, b: a.name} {
		if status, answer := c.call(t, http.MethodPost, "/api/consent", map[string]any{"action": "accept", "handle": other}); status != http.StatusOK {
			t.Fatal(status, answer)
		}
	}
}

// texts returns the bodies of the messages in a member of an answer.
func texts(answer map[string]any, member string) []string {
	var all []string
	for _, m := range answer[member].([]any) {
		all = append(all, m.(map[string]any)["body"].(string))
	}
	return all
}

func TestDeployedClientRegisters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.newcomer(t, "Scout-7", map[string]any{"mood": "deep"})
	anybody := &client{world: w}
	_, answer := anybody.call(t, http.MethodGet, "/api/presence", nil)
	for _, list := range []string{"active", "agents", "users"} {
		entries, _ := answer[list].([]any)
		if len(entries) != 2 {
			t.Fatalf("%s: %v", list, answer[list])
		}
		entry, _ := entries[1].(map[string]any)
		for member, want := range map[string]any{
			"handle": "scout_7", "username": "scout_7", "status": "active", "workingOn": "testing", "working_on": "testing",
			"federated_id": "scout_7@gw.example", "isAgent": true,
		} {
			if entry[member] != want {
				t.Errorf("%s: %s is %v, want %v", list, member, entry[member], want)
			}
		}
	}
	if counts := answer["counts"].(map[string]any); counts["active"] != 2.0 || counts["away"] != 0.0 || counts["total"] != 2.0 {
		t.Errorf("counts %v", counts)
	}
	status, answer := scout.call(t, http.MethodPost, "/api/presence", map[string]any{"action": "heartbeat", "username": "scout-7", "status": "away"})
	if status != http.StatusOK || answer["token"] == "" {
		t.Errorf("heartbeat: %d %v", status, answer)
	}
	_, answer = anybody.call(t, http.MethodGet, "/api/v2/presence?include=recent", nil)
	if away := answer["away"].([]any); len(away) != 1 || away[0].(map[string]any)["workingOn"] != "testing" {
		t.Errorf("away: %v", away)
	}
	if status, answer := anybody.call(t, http.MethodGet, "/api/presence?user=scout_7", nil); status != http.StatusOK {
		t.Errorf("one user: %d %v", status, answer)
	}
	if status, answer := anybody.call(t, http.MethodGet, "/api/presence?user=nobody", nil); status != http.StatusNotFound {
		t.Errorf("nobody: %d %v", status, answer)
	}
	_, answer = anybody.call(t, http.MethodGet, "/api/identity/Scout-7", nil)
	if answer["handle"] != "scout_7" || answer["public_key"] != nil || answer["presence"] != "away" {
		t.Errorf("identity %v", answer)
	}
	if _, answer := anybody.call(t, http.MethodGet, "/api/agents?q=testing", nil); answer["total"] != 1.0 {
		t.Errorf("agents: %v", answer)
	}
}

// spec: airc-shapes "Requests"
func TestDeployedHandleReturnsOnlyToItsOwner(t *testing.T) {
	t.Parallel()
	key, _ := newKey(0x21)
	other := base64.StdEncoding.EncodeToString(seed(0x22))
	again := func(more map[string]any) map[string]any {
		body := map[string]any{"action": "register", "username": "scout_7"}
		maps.Copy(body, more)
		return body
	}
	public := "ed25519:" + base64.StdEncoding.EncodeToString(key[ed25519.PublicKeySize:])
	signed := func(body map[string]any) []string {
		text, err := json.Marshal(body) // sorted and without spaces, as canonical JSON is
		if err != nil {
			t.Fatal(err)
		}
		return []string{"X-AIRC-Signature", base64.StdEncoding.EncodeToString(ed25519.Sign(key, text))}
	}
	for name, test := range map[string]struct {
		reregister string
		key        any // of the handle as it is registered first
		body       map[string]any
		headers    []string
		token      bool
		want       int
	}{
		"with nothing":                           {airc.ReregisterProof, public, again(nil), nil, false, 409},
		"with nothing, of an agent without key":  {airc.ReregisterProof, nil, again(nil), nil, false, 409},
		"with nothing, where the operator lets":  {airc.ReregisterKeyless, nil, again(nil), nil, false, 200},
		"with nothing, but of an agent with key": {airc.ReregisterKeyless, public, again(nil), nil, false, 409},
		"with its token":                         {airc.ReregisterProof, public, again(nil), nil, true, 200},
		"with its signature":                     {airc.ReregisterProof, public, again(nil), signed(again(nil)), false, 200},
		"with a signature of other bytes":        {airc.ReregisterProof, public, again(nil), signed(again(map[string]any{"x": 1})), false, 409},
		"with its signature and another key":     {airc.ReregisterProof, public, again(map[string]any{"publicKey": other}), signed(again(map[string]any{"publicKey": other})), false, 409},
		"with the operator's credential":         {airc.ReregisterProof, public, again(map[string]any{"publicKey": other}), []string{"x-agent-mint", "minted"}, false, 200},
		"with another credential":                {airc.ReregisterProof, public, again(nil), []string{"x-agent-mint", "forged"}, false, 409},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, d *airc.Deps) {
				c.Reregister, c.MintTokenFile = test.reregister, "mint"
				d.Secrets = bridgetest.Secrets{c.MintTokenFile: "minted"}
			})
			first := map[string]any{"action": "register", "username": "scout_7", "workingOn": "testing"}
			if test.key != nil {
				first["publicKey"] = test.key
			}
			c := w.newcomer(t, "scout_7", first, signed(first)...)
			if !test.token {
				c.token = ""
			}
			status, answer := c.call(t, http.MethodPost, "/api/presence", test.body, test.headers...)
			if status != test.want || status == 409 && answer["error"] != "handle_taken" || status == 200 && answer["token"] == nil {
				t.Errorf("%d %v, want %d", status, answer, test.want)
			}
		})
	}
}

func TestDeployedTokenIsForOneHandle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		scout, amy := w.newcomer(t, "scout_7", nil), w.newcomer(t, "amy_1", nil)
		if status, _ := amy.call(t, http.MethodPost, "/api/messages", map[string]any{"from": "scout_7", "to": "amy_1", "text": "x"}); status != http.StatusForbidden {
			t.Errorf("in another's name: %d", status)
		}
		if status, _ := amy.call(t, http.MethodGet, "/api/messages?user=scout_7", nil); status != http.StatusForbidden {
			t.Errorf("another's messages: %d", status)
		}
		if status, _ := amy.call(t, http.MethodPost, "/api/presence", map[string]any{"action": "heartbeat", "username": "scout_7"}); status != http.StatusForbidden {
			t.Errorf("another's heartbeat: %d", status)
		}
		strict := w.stranger("scout_7", 0x01)
		strict.Token = scout.token
		if got := told(strict.Call(t.Context(), http.MethodGet, "/messages/inbox", nil)); got != "401 unauthorized" {
			t.Errorf("outside /api: %s", got)
		}
		time.Sleep(30*24*time.Hour - time.Minute)
		if status, answer := scout.call(t, http.MethodGet, "/api/messages", nil); status != http.StatusOK {
			t.Errorf("after 30 days less a minute: %d %v", status, answer)
		}
		time.Sleep(time.Minute)
		status, answer := scout.call(t, http.MethodGet, "/api/messages", nil)
		if status != http.StatusUnauthorized || answer["error"] != "token_expired" {
			t.Errorf("after 30 days: %d %v", status, answer)
		}
		scout.token = ""
		_, answer = scout.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "amy_1", "body": "x"})
		if !strings.Contains(answer["message"].(string), "Authentication") {
			t.Errorf("without a token: %v", answer)
		}
	})
}

func TestDeployedMessageTextHasThreeNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, amy := w.newcomer(t, "scout_7", nil), w.newcomer(t, "amy_1", nil)
	know(t, scout, amy)
	for i, body := range []map[string]any{
		{"from": "scout_7", "to": "amy_1", "type": "text", "text": "0"},
		{"to": "@amy-1", "body": "1"},
		{"from": "@Scout_7", "to": "amy_1", "content": "2"},
		{"to": "amy_1", "payload": map[string]any{"type": "text", "content": "3"}},
		{"to": "amy_1", "body": "4", "text": "4", "reply_to": "msg_1"},
	} {
		status, answer := scout.call(t, http.MethodPost, "/api/messages", body)
		message, _ := answer["message"].(map[string]any)
		if status != http.StatusCreated || message["body"] != fmt.Sprint(i) || answer["messageId"] != message["id"] || answer["consent"] != "accepted" {
			t.Errorf("message %d: %d %v", i, status, answer)
		}
	}
	_, answer := amy.call(t, http.MethodGet, "/api/messages?user=amy_1&with=@scout_7", nil)
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4"}, texts(answer, "messages")); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
	last := ""
	for _, m := range answer["thread"].([]any) {
		message, _ := m.(map[string]any)
		at, _ := message["created_at"].(string)
		if len(at) != len("2006-01-02T15:04:05.000Z") || at <= last {
			t.Errorf("created at %q after %q", at, last)
		}
		last = at
		for member, want := range map[string]any{
			"from": "scout_7", "from_handle": "scout_7", "to_handle": "amy_1", "text": message["body"], "content": message["body"],
			"direction": "received", "signed": false, "assurance": "token", "thread_id": "amy_1:scout_7",
		} {
			if message[member] != want {
				t.Errorf("%s is %v, want %v", member, message[member], want)
			}
		}
	}
	for name, body := range map[string]map[string]any{
		"no recipient": {"body": "x"}, "no text": {"to": "amy_1"}, "a long text": {"to": "amy_1", "body": strings.Repeat("é", 4001)},
		"an id with spaces": {"to": "amy_1", "body": "x", "id": "12345 67890"},
	} {
		if status, answer := scout.call(t, http.MethodPost, "/api/messages", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	if status, _ := scout.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "nobody", "body": "x"}); status != http.StatusNotFound {
		t.Errorf("to nobody: %d", status)
	}
}

// A bot that answers each message that it polls must not answer one for ever.
func TestDeployedPollReturnsAMessageOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, amy := w.newcomer(t, "scout_7", nil), w.newcomer(t, "amy_1", nil)
	know(t, scout, amy)
	send := func(text string) {
		t.Helper()
		scout.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "amy_1", "text": text})
	}
	poll := func(query string) string {
		t.Helper()
		_, answer := amy.call(t, http.MethodGet, "/api/messages?user=amy_1"+query, nil)
		return strings.Join(append(texts(answer, "messages"), fmt.Sprint(answer["unread"])), " ")
	}
	send("a")
	send("b")
	for _, step := range []struct{ query, want string }{
		{"&to=amy_1", "a b 2"},
		{"", "a b 2"},
		{"", "2"},
		{"&since=0", "2"},
		{"&since=1", "a b 2"},
		{"&since=" + fmt.Sprint(time.Now().Add(time.Minute).Unix()), "2"},
	} {
		if got := poll(step.query); got != step.want {
			t.Errorf("poll %s: %q, want %q", step.query, got, step.want)
		}
	}
	send("c")
	if got := poll(""); got != "c 3" {
		t.Errorf("after another one: %q", got)
	}
	amy.call(t, http.MethodGet, "/api/messages/thread/scout_7", nil)
	_, answer := amy.call(t, http.MethodGet, "/api/messages/inbox?handle=amy_1", nil)
	threads, _ := answer["threads"].([]any)
	thread, _ := threads[0].(map[string]any)
	if len(threads) != 1 || thread["with"] != "scout_7" || thread["unread"] != 0.0 || thread["message_count"] != 3.0 || thread["preview"] != "c" {
		t.Errorf("threads %v", threads)
	}
	if status, answer := amy.call(t, http.MethodGet, "/api/messages?since=yesterday", nil); status != http.StatusBadRequest {
		t.Errorf("since yesterday: %d %v", status, answer)
	}
	id, _ := thread["last_message"].(map[string]any)["id"].(string)
	for _, want := range []int{200, 404} {
		if status, answer := amy.call(t, http.MethodDelete, "/api/messages", map[string]any{"user": "amy_1", "messageId": id}); status != want {
			t.Errorf("delete: %d %v, want %d", status, answer, want)
		}
	}
}

func TestDeployedMessageIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, amy := w.newcomer(t, "scout_7", nil), w.newcomer(t, "amy_1", nil)
	know(t, scout, amy)
	message := map[string]any{"to": "amy_1", "body": "x", "idempotency_key": "key-0001", "payload": map[string]any{"type": "ping", "data": map[string]any{"n": 1.0}}}
	first, answer := scout.call(t, http.MethodPost, "/api/messages", message)
	id := answer["id"]
	again, answer := scout.call(t, http.MethodPost, "/api/messages", message)
	if first != 201 || again != 200 || answer["duplicate"] != true || answer["id"] != id {
		t.Errorf("%d, and again %d %v", first, again, answer)
	}
	message["body"] = "y"
	if status, answer := scout.call(t, http.MethodPost, "/api/messages", message); status != http.StatusConflict {
		t.Errorf("other words under the same key: %d %v", status, answer)
	}
	if _, answer := amy.call(t, http.MethodGet, "/api/messages", nil); len(texts(answer, "messages")) != 1 {
		t.Errorf("messages %v", answer["messages"])
	}
}

// Each client names the two sides of consent in its own way.
func TestDeployedConsentBodiesAreOneRule(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]map[string]any{
		"handle":               {"action": "accept", "handle": "alice_1"},
		"from me, handle":      {"action": "accept", "from": "me_me", "handle": "alice_1"},
		"from me, to":          {"action": "accept", "from": "me_me", "to": "alice_1"},
		"from the other to me": {"action": "accept", "from": "@alice-1", "to": "me_me"},
		"a type":               {"type": "consent:accept", "from": "me_me", "to": "alice_1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			me, alice := w.newcomer(t, "me_me", nil), w.newcomer(t, "alice_1", nil)
			status, answer := alice.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "me_me", "body": "hello"})
			if status != http.StatusAccepted || answer["consent"] != "pending" || answer["pendingConsent"] != true {
				t.Fatalf("first contact: %d %v", status, answer)
			}
			if _, answer = me.call(t, http.MethodGet, "/api/consent?user=me_me", nil); fmt.Sprint(answer["pending"]) != "[@alice_1]" {
				t.Errorf("pending %v", answer["pending"])
			}
			if _, answer = me.call(t, http.MethodGet, "/api/consent?from=alice_1&to=me_me", nil); answer["status"] != "pending" {
				t.Errorf("status %v", answer["status"])
			}
			if status, answer = me.call(t, http.MethodPost, "/api/consent", body); status != http.StatusOK || answer["status"] != "accepted" {
				t.Errorf("accept: %d %v", status, answer)
			}
			if _, answer = me.call(t, http.MethodGet, "/api/messages", nil); !slices.Contains(texts(answer, "messages"), "hello") {
				t.Errorf("messages %v", answer["messages"])
			}
		})
	}
}

func TestDeployedConsentIsBlockedAndRequestedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me, alice := w.newcomer(t, "me_me", nil), w.newcomer(t, "alice_1", nil)
	decide := func(c *client, action string) string {
		t.Helper()
		other := map[string]string{"me_me": "alice_1", "alice_1": "me_me"}[c.name]
		status, answer := c.call(t, http.MethodPost, "/api/consent", map[string]any{"action": action, "from": c.name, "handle": other})
		return fmt.Sprint(status, " ", answer["status"])
	}
	for _, step := range []struct {
		who          *client
		action, want string
	}{
		{me, "block", "200 blocked"},
		{me, "unblock", "200 none"},
		{alice, "request", "200 pending"},
		{alice, "request", "200 pending"},
		{me, "accept", "200 accepted"},
		{me, "befriend", "400 <nil>"},
	} {
		if got := decide(step.who, step.action); got != step.want {
			t.Errorf("%s by %s: %s, want %s", step.action, step.who.name, got, step.want)
		}
	}
	if status, answer := me.call(t, http.MethodPost, "/api/consent", map[string]any{"action": "accept", "from": "me_me", "to": "me_me"}); status != http.StatusOK {
		t.Errorf("to oneself: %d %v", status, answer)
	}
	if status, _ := me.call(t, http.MethodGet, "/api/consent?from=alice_1&to=somebody", nil); status != http.StatusForbidden {
		t.Errorf("an edge of others: %d", status)
	}
}

// spec: airc-v0.1.1 §6
func TestDeployedKeyEncodingsAreOneKey(t *testing.T) {
	t.Parallel()
	key, public := newKey(0x21)
	raw := []byte(key[ed25519.PublicKeySize:])
	spki := append([]byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"), raw...)
	for name, text := range map[string]string{
		"raw":            base64.RawURLEncoding.EncodeToString(raw),
		"prefixed":       "ed25519:" + base64.StdEncoding.EncodeToString(raw),
		"X.509":          base64.StdEncoding.EncodeToString(spki),
		"prefixed X.509": "ed25519:" + base64.StdEncoding.EncodeToString(spki),
		"PEM":            string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})),
	} {
		w := newWorld(t)
		w.newcomer(t, "scout_7", map[string]any{"publicKey": text})
		_, answer := (&client{world: w}).call(t, http.MethodGet, "/api/identity/scout_7", nil)
		if answer["publicKey"] != public || answer["public_key"] != "ed25519:"+base64.StdEncoding.EncodeToString(raw) {
			t.Errorf("%s: %v", name, answer)
		}
	}
	w := newWorld(t)
	for name, text := range map[string]string{"short": "AAAA", "no base64": "!!", "of another kind": base64.StdEncoding.EncodeToString(append([]byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x6e\x03\x21\x00"), raw...))} {
		status, answer := (&client{world: w}).call(t, http.MethodPost, "/api/users", map[string]any{"username": "scout_7", "publicKey": text})
		if status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
}

func TestDeployedClientHandsOffToASigningAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	amy, scout := w.newcomer(t, "amy_1", nil), w.agent(t, "scout_7", 0x01)
	if got := told(scout.Consent(t.Context(), "amy_1", "accept")); got != "200" {
		t.Fatal(got)
	}
	status, answer := amy.call(t, http.MethodPost, "/api/messages", map[string]any{
		"to": "scout_7", "body": "please", "payload": map[string]any{"type": "task:request", "data": map[string]any{"description": "Cite three sources"}},
	})
	if status != http.StatusCreated || answer["handoff"].(map[string]any)["state"] != "offered" {
		t.Fatalf("offer: %d %v", status, answer)
	}
	offer := inbox(t, scout)[0]
	if offer.From != "amy_1" || offer.Payload.Type != "task:request" {
		t.Errorf("the agent reads %+v", offer)
	}
	raws, _, err := scout.Inbox(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := scout.Verify(raws[0]); err != nil {
		t.Errorf("the message is not signed by the registry: %v", err)
	}
	if got := told(scout.Send(t.Context(), "amy_1", "done", result(offer.ID, "completed", "result", map[string]any{"note": "here"}))); got != "201" {
		t.Fatalf("complete: %s", got)
	}
	_, answer = amy.call(t, http.MethodGet, "/api/messages", nil)
	last, _ := answer["messages"].([]any)[0].(map[string]any)
	if last["type"] != "task:result" || last["signed"] != true {
		t.Errorf("the client reads %v", last)
	}
}

func TestDeployedKeysAreBoundReplacedAndEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, _ := newKey(0x21)
	second, _ := newKey(0x22)
	recovery, _ := newKey(0x23)
	text := func(key ed25519.PrivateKey) string {
		return "ed25519:" + base64.StdEncoding.EncodeToString(key[ed25519.PublicKeySize:])
	}
	scout := w.newcomer(t, "scout_7", map[string]any{"recoveryKey": text(recovery)})
	prove := func(key ed25519.PrivateKey, member string, body map[string]any) map[string]any {
		body["timestamp"], body["nonce"] = time.Now().Unix(), "00"
		document, err := json.Marshal(body) // sorted, as canonical JSON is
		if err != nil {
			t.Fatal(err)
		}
		body[member] = base64.StdEncoding.EncodeToString(ed25519.Sign(key, document))
		return body
	}
	for _, step := range []struct {
		name, path string
		body       map[string]any
		want       int
	}{
		{"its first key with a token alone", "/api/identity/scout_7/rotate", map[string]any{"publicKey": text(first)}, 200},
		{"the next one likewise", "/api/identity/scout_7/rotate", map[string]any{"publicKey": text(second)}, 401},
		{"the next one by a stranger", "/api/identity/scout_7/rotate", map[string]any{"proof": prove(second, "signature", map[string]any{"new_public_key": text(second)})}, 401},
		{"the next one by the first, which names no registry", "/api/identity/scout_7/rotate", map[string]any{"new_public_key": text(second), "proof": prove(first, "signature", map[string]any{"new_public_key": text(second)})}, 401},
		{"the next one by the recovery key", "/api/identity/scout_7/rotate", map[string]any{"new_public_key": text(second), "proof": prove(recovery, "signature", map[string]any{"new_public_key": text(second)})}, 200},
		{"another's", "/api/identity/amy_1/rotate", map[string]any{"publicKey": text(second)}, 403},
		{"an end by the first", "/api/identity/revoke", prove(first, "proof", map[string]any{"action": "revoke", "reason": "x"}), 401},
		{"an end by nobody", "/api/identity/scout_7/revoke", map[string]any{}, 401},
		{"an end by the second, which names no registry", "/api/identity/revoke", prove(second, "proof", map[string]any{"action": "revoke", "reason": "x"}), 401},
		{"an end by the recovery key", "/api/identity/revoke", prove(recovery, "proof", map[string]any{"handle": "scout_7", "action": "revoke", "reason": "x"}), 200},
		{"anything after that", "/api/identity/scout_7/rotate", map[string]any{"publicKey": text(first)}, 401},
	} {
		status, answer := scout.call(t, http.MethodPost, step.path, step.body)
		if status != step.want {
			t.Errorf("%s: %d %v, want %d", step.name, status, answer, step.want)
		}
		if token, ok := answer["token"].(string); ok { // the earlier tokens end
			scout.token = token
		}
	}
}

// A letter of another script is never folded to an ASCII letter.
func TestDeployedHandleIsNotFolded(t *testing.T) {
	t.Parallel()
	const kelvin = "\u212aeyless" // whose lower case is "keyless"
	w := newWorld(t)
	keyless := w.newcomer(t, "KEYLESS", nil)
	anybody := &client{world: w}
	for _, test := range []struct {
		name         string
		client       *client
		method, path string
		body         any
		want         string
	}{
		{"register it", anybody, http.MethodPost, "/api/presence", map[string]any{"action": "register", "username": kelvin}, "422 invalid_handle"},
		{"register one with a space of its own", anybody, http.MethodPost, "/api/users", map[string]any{"username": "\u00a0keyless"}, "422 invalid_handle"},
		{"register one with a dotted capital", anybody, http.MethodPost, "/api/identity", map[string]any{"handle": "m\u0130ra"}, "422 invalid_handle"},
		{"write to it", keyless, http.MethodPost, "/api/messages", map[string]any{"to": kelvin, "body": "x"}, "404 identity_not_found"},
		{"write as it", keyless, http.MethodPost, "/api/messages", map[string]any{"from": kelvin, "to": "keyless", "body": "x"}, "403 not_your_handle"},
		{"look it up", anybody, http.MethodGet, "/api/identity/%E2%84%AAeyless", nil, "404 identity_not_found"},
		{"look it up between registries", anybody, http.MethodGet, "/federation/identity?handle=%E2%84%AAeyless", nil, "400 bad_request"},
		{"look up a registry", anybody, http.MethodGet, "/federation/identity?handle=amy_1&registry=%E2%84%AA.test", nil, "400 bad_request"},
		{"relay for a registry", anybody, http.MethodPost, "/federation/relay", map[string]any{"origin_registry": "\u212a.test", "from": "amy_1", "to": "keyless", "body": "x"}, "400 bad_request"},
		{"write in capitals", keyless, http.MethodPost, "/api/messages", map[string]any{"to": " @Keyless ", "body": "x"}, "201"},
	} {
		status, answer := test.client.call(t, test.method, test.path, test.body)
		if got := told(status, answer, nil); got != test.want {
			t.Errorf("%s: %s %v, want %s", test.name, got, answer["message"], test.want)
		}
	}
}
