package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// posted is a request that a webhook got.
type posted struct {
	header http.Header
	body   []byte
	step   struct {
		Type string
		Data struct {
			Step struct {
				HandoffID string `json:"handoff_id"`
				Title     string
			}
		}
	}
}

// receiver is a server that answers webhooks as a test sets it.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	status int
	got    []posted
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		p := posted{header: req.Header, body: body}
		_ = json.Unmarshal(body, &p.step)
		r.mu.Lock()
		r.got = append(r.got, p)
		status := r.status
		r.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// next waits for the n-th request, from 1.
func (r *receiver) next(t *testing.T, n int) (p posted) {
	t.Helper()
	await(t, "a request to the webhook", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.got) >= n {
			p = r.got[n-1]
		}
		return len(r.got) >= n
	})
	return p
}

func TestWebhookGetsArrivalsOverAKill(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[fetch]\nallow_private = true") // the receiver is on this machine
	h.start(t)
	h.ready(t)
	eliza, scholar := logIn(t, h.url()), logIn(t, h.url())
	server := newReceiver(t)
	var hook struct{ ID, Secret string }
	scholar.must(t, http.StatusCreated, http.MethodPost, "webhooks", map[string]any{"url": server.URL + "/hook"}, &hook)
	id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite three sources on X"})
	first := server.next(t, 1)
	if first.step.Type != "handoff.offer" || first.step.Data.Step.HandoffID != id || first.step.Data.Step.Title != "Cite three sources on X" {
		t.Errorf("posted %s", first.body)
	}
	verifier, err := standardwebhooks.NewWebhook(hook.Secret)
	if err == nil {
		err = verifier.Verify(first.body, first.header)
	}
	if err != nil {
		t.Errorf("the signature: %v", err)
	}
	verifiedByHand(t, hook.Secret, first)
	await(t, "the delivery to be noted", func() bool {
		var shown admin.Handoff
		h.asks(t, &shown, "handoff", "show", id)
		d := shown.Steps[0].Delivered
		return len(d) == 1 && d[0].Via == "webhook" && d[0].State == "delivered"
	})

	// A receiver that fails, and a gateway killed meanwhile: nothing is lost.
	server.answer(http.StatusBadGateway)
	second := eliza.offer(t, map[string]any{"to": scholar.did, "title": "another"})
	server.next(t, 2)
	shown := func() (d admin.WebhookDelivery) {
		var w admin.Webhook
		h.asks(t, &w, "webhook", "show", hook.ID[20:])
		return w.Deliveries[0]
	}
	await(t, "the failure to be noted", func() bool { return shown().Attempt == 1 })
	if n := h.counters(t)["baton_webhook_rows"]; n != 1 {
		t.Errorf("%v wait by the metrics", n)
	}
	before := shown()
	h.kill(t)
	h.start(t)
	h.ready(t)
	if after := shown(); after != before || after.Of != second || after.LastError != "status 502" || after.State != "waiting" {
		t.Errorf("after a kill it is owed %+v, before %+v", after, before)
	}
	server.answer(http.StatusOK)
	var done admin.Acted
	h.asks(t, &done, "webhook", "redeliver", hook.ID, "--reason", "it is back")
	if again := server.next(t, 3); done.Changed != 1 || again.header.Get("Webhook-Id") != server.next(t, 2).header.Get("Webhook-Id") {
		t.Errorf("%d are made again, the next with the id %s", done.Changed, again.header.Get("Webhook-Id"))
	}
	var list admin.Page[admin.Webhook]
	await(t, "nothing to wait", func() bool {
		h.asks(t, &list, "webhook", "list", "--did", string(scholar.did))
		return len(list.Items) == 1 && list.Items[0].Waiting == 0
	})
}

func TestWebhookIsEnabledByAnOperator(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[fetch]\nallow_private = true")
	h.start(t)
	h.ready(t)
	eliza, scholar, server := logIn(t, h.url()), logIn(t, h.url()), newReceiver(t)
	var hook struct{ ID string }
	scholar.must(t, http.StatusCreated, http.MethodPost, "webhooks", map[string]any{"url": server.URL}, &hook)
	server.answer(http.StatusGone)
	id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite three sources on X"})
	await(t, "the webhook to be disabled", func() bool {
		var w admin.Webhook
		h.asks(t, &w, "webhook", "show", hook.ID)
		return !w.Disabled.IsZero()
	})
	h.kill(t)
	h.start(t)
	h.ready(t)
	var told struct {
		Items []struct {
			Notice    string
			WebhookID string `json:"webhook_id"`
		}
	}
	scholar.must(t, http.StatusOK, http.MethodGet, "notices", nil, &told)
	if len(told.Items) != 1 || told.Items[0].Notice != "disabled" || told.Items[0].WebhookID != hook.ID {
		t.Errorf("its owner is told %+v", told.Items)
	}
	said, err := h.command(t, "webhook", "redeliver", hook.ID, "--reason", "it is back").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "baton webhook enable") {
		t.Errorf("redelivering says %s, %v", said, err)
	}
	server.answer(http.StatusOK)
	for _, want := range []int{1, 0} {
		var done admin.Acted
		h.asks(t, &done, "webhook", "enable", hook.ID[20:], "--did", string(scholar.did), "--reason", "it is back")
		if done.Changed != want {
			t.Errorf("%d are enabled, want %d", done.Changed, want)
		}
	}
	if p := server.next(t, 2); p.step.Data.Step.HandoffID != id {
		t.Errorf("posted %s", p.body)
	}
	var audit admin.Page[admin.Change]
	h.asks(t, &audit, "audit", "list")
	if len(audit.Items) == 0 || audit.Items[0].What != "webhook enable" || audit.Items[0].Reason != "it is back" {
		t.Errorf("the audit log has %+v", audit.Items)
	}
}

// verifiedByHand runs the Python of the guide that verifies a signature.
func verifiedByHand(t *testing.T, secret string, p posted) {
	t.Helper()
	var code string
	for _, f := range readDocument(t, "bridge/agents/rest/README.md").fences {
		if f.language == "python" && strings.Contains(f.text, "def verified") {
			code = f.text
		}
	}
	if code == "" {
		t.Fatal("the guide has no Python for it")
	}
	headers := map[string]string{}
	for name := range p.header {
		headers[strings.ToLower(name)] = p.header.Get(name)
	}
	asked, err := json.Marshal(headers)
	if err != nil {
		t.Fatal(err)
	}
	script := code + "\nimport json, sys\nbody = sys.stdin.buffer.read()\n" +
		"print(verified(sys.argv[1], json.loads(sys.argv[2]), body), verified(sys.argv[1], json.loads(sys.argv[2]), body + b' '))\n"
	cmd := exec.CommandContext(t.Context(), "python3", "-c", script, secret, string(asked))
	cmd.Stdin = bytes.NewReader(p.body)
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "True False" {
		t.Errorf("the guide verifies it as %s, %v", out, err)
	}
}

func TestWebhookRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	scholar, server := logIn(t, h.url()), newReceiver(t)
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	for _, address := range []string{server.URL, "https://127.0.0.1" + port, "https://localhost" + port, "https://[::1]" + port, "https://10.0.0.1/", "https://169.254.169.254/"} {
		scholar.must(t, http.StatusBadRequest, http.MethodPost, "webhooks", map[string]any{"url": address}, nil)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.got) != 0 {
		t.Errorf("%d requests came inside", len(server.got))
	}
}

func TestWebhookFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[fetch]\nallow_private = true")
	h.start(t)
	h.ready(t)
	eliza, scholar, inside := logIn(t, h.url()), logIn(t, h.url()), newReceiver(t)
	liar := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	t.Cleanup(liar.Close)
	var hook struct{ ID string }
	scholar.must(t, http.StatusCreated, http.MethodPost, "webhooks", map[string]any{"url": liar.URL}, &hook)
	eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite three sources on X"})
	await(t, "the redirect to be a failure", func() bool {
		var w admin.Webhook
		h.asks(t, &w, "webhook", "show", hook.ID)
		return len(w.Deliveries) == 1 && w.Deliveries[0].LastError == "status 307"
	})
	inside.mu.Lock()
	defer inside.mu.Unlock()
	if len(inside.got) != 0 {
		t.Error("the redirect was followed")
	}
}

// An agent of the registry with a webhook gets its messages in the form of a fetch, and
// has them then.
func TestWebhookOfARegistryAgentIsCalled(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[fetch]\nallow_private = true")
	h.start(t)
	h.ready(t)
	server, eliza := newReceiver(t), logIn(t, h.url())
	scout := bridgetest.NewAgent(h.url(), "scout_7", bytes.Repeat([]byte{7}, 32))
	scout.Capabilities = map[string]any{"delivery": []string{"webhook", "poll"}, "webhook": server.URL + "/secret-path"}
	told := called(t, scout)
	if told.Webhook.Secret == "" || told.Webhook.URL != server.URL+"/secret-path" {
		t.Fatalf("the agent is told %+v", told)
	}
	h.secrets = append(h.secrets, scout.Token, told.Webhook.Secret)
	if _, text := get(t, h.url()+"/identity/scout_7"); strings.Contains(text, "secret-path") || !strings.Contains(text, `"delivery":["webhook","poll"]`) {
		t.Errorf("everybody is shown %s", text)
	}

	id := eliza.offer(t, map[string]any{"to": scout.DID, "title": "Cite three sources on X"})
	type envelope struct {
		From    string
		Payload struct {
			Type string
			Data struct{ Requester string }
		}
	}
	read := func(n int) (m envelope) {
		var posted struct {
			Type string
			Data json.RawMessage
		}
		got := server.next(t, n)
		if err := json.Unmarshal(got.body, &posted); err != nil || posted.Type != "airc.message" {
			t.Fatalf("posted %s, %v", got.body, err)
		}
		verifier, err := standardwebhooks.NewWebhook(told.Webhook.Secret)
		if err == nil {
			err = verifier.Verify(got.body, got.header)
		}
		if err := errors.Join(err, json.Unmarshal(posted.Data, &m)); err != nil {
			t.Fatal(err)
		}
		return m
	}
	knock := read(1)
	if knock.Payload.Type != "system:handshake_request" {
		t.Fatalf("the first message is %+v", knock)
	}
	status, answer, err := scout.Call(t.Context(), http.MethodPost, "/consent", map[string]any{"handle": knock.Payload.Data.Requester, "action": "accept"})
	if status != http.StatusOK || err != nil {
		t.Fatalf("consent is answered %d %v, %v", status, answer, err)
	}
	if offer := read(2); offer.Payload.Type != "task:request" {
		t.Errorf("the second message is %+v", offer)
	}
	await(t, "the offer to be delivered", func() bool {
		var shown admin.Handoff
		h.asks(t, &shown, "handoff", "show", id)
		d := shown.Steps[0].Delivered
		return len(d) == 1 && d[0].To == "scout_7" && d[0].State == "delivered"
	})

	server.answer(http.StatusGone)
	eliza.step(t, id, "cancel", nil)
	await(t, "the agent to read that nobody calls it any more", func() bool {
		raws, _, err := scout.Inbox(t.Context(), "")
		return err == nil && strings.Contains(string(bytes.Join(asBytes(raws), nil)), "system:webhook_disabled")
	})
	var list admin.Page[admin.Webhook]
	await(t, "the webhook to be disabled", func() bool {
		h.asks(t, &list, "webhook", "list")
		return len(list.Items) == 1 && list.Items[0].Agent == "scout_7" && strings.Contains(list.Items[0].Why, "410")
	})
	var another struct{ Of string }
	itself := &caller{url: h.url(), token: scout.Token}
	itself.must(t, http.StatusCreated, http.MethodPost, "webhooks", map[string]any{"url": server.URL + "/again", "of": "messages"}, &another)
	if another.Of != "messages" {
		t.Errorf("the address that it registers anew gets %q", another.Of)
	}
}

// hooked is the answer to the registration of an agent with a webhook.
type hooked struct {
	DID, AccessToken string
	Webhook          struct{ ID, URL, Secret, PublicKey string }
}

func called(t *testing.T, a *bridgetest.Agent) (told hooked) {
	t.Helper()
	_, given, err := a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": a.Handle})
	challenge, _ := given["challenge"].(string)
	if err != nil || challenge == "" {
		t.Fatalf("challenge %v, %v", given, err)
	}
	status, answer, err := a.Call(t.Context(), http.MethodPost, "/register", a.Registration(challenge))
	text, unwritten := json.Marshal(answer)
	if err := errors.Join(err, unwritten, json.Unmarshal(text, &told)); err != nil || status != http.StatusCreated {
		t.Fatalf("registration is answered %d %s, %v", status, text, err)
	}
	a.DID, a.Token = told.DID, told.AccessToken
	return told
}

func asBytes(raws []json.RawMessage) [][]byte {
	all := make([][]byte, len(raws))
	for i, raw := range raws {
		all[i] = raw
	}
	return all
}

func TestWebhookOfARegistryAgentMustBePublic(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	scout := bridgetest.NewAgent(h.url(), "scout_7", bytes.Repeat([]byte{7}, 32))
	scout.Capabilities = map[string]any{"delivery": []string{"webhook"}, "webhook": "https://127.0.0.1/"}
	if err := scout.Register(t.Context()); err == nil || !strings.Contains(err.Error(), "bad_request") {
		t.Errorf("registered: %v", err)
	}
	scout.Capabilities = map[string]any{"delivery": []string{"poll"}, "webhook": "https://127.0.0.1/"}
	if err := scout.Register(t.Context()); err != nil {
		t.Errorf("one that polls: %v", err)
	}
}
