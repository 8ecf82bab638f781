package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/bridge/webhook"
	"github.com/baton-gateway/baton/federation/identity"
)

// hooks returns the webhooks of a world, which call its outside.
func (w *world) hooks() *webhook.Hooks {
	w.outside = &outside{status: http.StatusOK, inside: "127.0.0.1"}
	w.webhooks = webhook.New(webhook.Config{MaxPerDID: 2, MaxAttempts: 3, Timeout: 5 * time.Second}, webhook.Deps{
		Record: w.record, Outside: w.outside, Key: bytes.Repeat([]byte{7}, 32), Pusher: w.Pusher,
		PubSub: w.Woken, Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	})
	return w.webhooks
}

// push is the posted content: one of the two.
type push struct {
	Type   string
	Data   contract.Entry
	Notice contract.Notice
}

// outside is every address there is. Each answers alike.
type outside struct {
	mu     sync.Mutex
	status int
	inside string // part of the addresses that lead inside
	bodies []push
	ids    []string
}

func (o *outside) Callable(_ context.Context, address string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.Contains(address, o.inside) {
		return identity.ErrNotAllowed
	}
	return nil
}

// lead has addresses with a part lead inside from now on.
func (o *outside) lead(inside string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inside = inside
}

func (o *outside) Call(_ context.Context, _ string, header http.Header, body []byte) (identity.Answer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var posted contract.Push
	err := json.Unmarshal(body, &posted)
	read := push{Type: posted.Type}
	if err == nil && strings.HasPrefix(posted.Type, "notice.") {
		err = json.Unmarshal(posted.Data, &read.Notice)
	} else if err == nil {
		err = json.Unmarshal(posted.Data, &read.Data)
	}
	o.bodies, o.ids = append(o.bodies, read), append(o.ids, header.Get("Webhook-Id"))
	return identity.Answer{Status: o.status}, err
}

func (o *outside) answer(status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status = status
}

func (o *outside) got() ([]push, []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.bodies), slices.Clone(o.ids)
}

func (a *agent) hook(tb testing.TB, address string) answer {
	tb.Helper()
	made := a.post(tb, "/api/v1/webhooks", map[string]any{"url": address})
	if made.Status != http.StatusCreated {
		tb.Fatalf("the webhook is answered %d %s", made.Status, made.Text)
	}
	return made
}

// call runs the webhooks of a world until its test ends.
func (w *world) call(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.webhooks.Run(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
}

// hooked returns a world whose webhooks run, an agent that offers work, and an agent with a
// webhook.
func hooked(t *testing.T) (w *world, eliza, scout *agent, id string) {
	t.Helper()
	w = newWorld(t)
	w.call(t)
	eliza, scout = w.login(t, "eliza"), w.login(t, "scout")
	return w, eliza, scout, scout.hook(t, "https://scout.example/hook").member("id")
}

// deliveries returns the outcome of the deliveries to a webhook, the newest
// first.
func (a *agent) deliveries(tb testing.TB, hook string) []contract.WebhookDelivery {
	tb.Helper()
	var page contract.WebhookDeliveryPage
	if err := json.Unmarshal([]byte(a.get(tb, "/api/v1/webhooks/"+hook+"/deliveries").Text), &page); err != nil {
		tb.Fatal(err)
	}
	return page.Items
}

func TestWebhookGetsArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.call(t)
		eliza, scout := w.login(t, "eliza"), w.login(t, "scout")
		made := scout.hook(t, "https://scout.example/hook")
		id := made.member("id")
		if made.Header.Get("Location") != "/api/v1/webhooks/"+id || !strings.HasPrefix(made.member("secret"), "whsec_") {
			t.Errorf("answered %v %s", made.Header, made.Text)
		}
		if got := scout.get(t, "/api/v1/webhooks/"+id); got.member("secret") != "" || got.member("public_key") != made.member("public_key") {
			t.Errorf("the secret is told twice: %s", got.Text)
		}
		offer := eliza.offer(t, map[string]any{"to": scout.did, "title": "Cite three sources"})
		time.Sleep(time.Second)
		bodies, ids := w.outside.got()
		if len(bodies) != 1 || bodies[0].Type != "handoff.offer" || bodies[0].Data.Step.HandoffID != offer || bodies[0].Data.Step.Title != "Cite three sources" {
			t.Fatalf("posted %+v", bodies)
		}
		if !strings.Contains(scout.get(t, "/api/v1/inbox").Text, `"waits":false`) {
			t.Error("what was posted waits in the inbox")
		}
		done := scout.deliveries(t, id)
		if len(done) != 1 || done[0].State != "delivered" || done[0].Of != offer || done[0].WebhookID != ids[0] || done[0].Verb != "offer" {
			t.Errorf("deliveries %+v", done)
		}
		refused(t, eliza.get(t, "/api/v1/webhooks/"+id+"/deliveries"), http.StatusNotFound, "not-found")
	})
}

func TestWebhookFailuresAreListedAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, eliza, scout, id := hooked(t)
		w.outside.answer(http.StatusBadGateway)
		first := eliza.offer(t, map[string]any{"to": scout.did, "title": "x"})
		time.Sleep(5 * time.Minute)
		failed := scout.deliveries(t, id)[0]
		if failed.State != "dead" || failed.Attempt != 3 || failed.LastError != "status 502" {
			t.Errorf("after its last attempt: %+v", failed)
		}
		second := eliza.offer(t, map[string]any{"to": scout.did, "title": "y"})
		time.Sleep(time.Second)
		if waits := scout.deliveries(t, id)[0]; waits.Of != second || waits.State != "waiting" || waits.Attempt != 1 || waits.Next.IsZero() {
			t.Errorf("after its first attempt: %+v", waits)
		}
		w.outside.answer(http.StatusNoContent)
		for _, ask := range [][2]string{{`{}`, `{"deliveries":2}`}, {`{"of":"` + first + `"}`, `{"deliveries":1}`}} {
			if got := scout.post(t, "/api/v1/webhooks/"+id+"/redeliver", ask[0]); got.Status != http.StatusAccepted || strings.TrimSpace(got.Text) != ask[1] {
				t.Errorf("redeliver %s is answered %d %s, want %s", ask[0], got.Status, got.Text, ask[1])
			}
		}
		time.Sleep(time.Second)
		var states []string
		for _, d := range scout.deliveries(t, id) {
			states = append(states, d.State)
		}
		if d := cmp.Diff([]string{"delivered", "delivered"}, states); d != "" {
			t.Errorf("in the end (-want +got):\n%s", d)
		}
		refused(t, scout.post(t, "/api/v1/webhooks/"+id+"/redeliver", `{"of":"elsewhere"}`), http.StatusNotFound, "not-found")
	})
}

func TestWebhookGoneIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, eliza, scout, id := hooked(t)
		w.outside.answer(http.StatusGone)
		eliza.offer(t, map[string]any{"to": scout.did, "title": "x"})
		time.Sleep(time.Second)
		got := scout.get(t, "/api/v1/webhooks/"+id)
		if got.member("disabled_at") == "" || !strings.Contains(got.member("disabled_why"), "410") {
			t.Errorf("it is shown as %s", got.Text)
		}
		again := scout.post(t, "/api/v1/webhooks/"+id+"/redeliver", `{}`)
		refused(t, again, http.StatusConflict, "conflict")
		if !strings.Contains(again.member("detail"), "POST /api/v1/webhooks/"+id+"/enable") {
			t.Errorf("what to do about it: %s", again.Text)
		}
		if !strings.Contains(scout.get(t, "/api/v1/inbox").Text, `"waits":true`) {
			t.Error("what nobody took does not wait any more")
		}
		if gone := w.ask(t, scout.token, http.MethodDelete, "/api/v1/webhooks/"+id, nil); gone.Status != http.StatusNoContent {
			t.Errorf("deleting it is answered %d %s", gone.Status, gone.Text)
		}
		refused(t, scout.get(t, "/api/v1/webhooks/"+id), http.StatusNotFound, "not-found")
	})
}

func TestWebhookEnabledGetsPendingPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, eliza, scout, id := hooked(t)
		w.outside.answer(http.StatusGone)
		first := eliza.offer(t, map[string]any{"to": scout.did, "title": "x"})
		time.Sleep(time.Second)
		second := eliza.offer(t, map[string]any{"to": scout.did, "title": "y"})
		w.outside.lead("scout.example")
		refused(t, scout.post(t, "/api/v1/webhooks/"+id+"/enable", nil), http.StatusConflict, "conflict")
		w.outside.lead("127.0.0.1")
		w.outside.answer(http.StatusOK)
		for range 2 { // the same again changes nothing
			got := scout.post(t, "/api/v1/webhooks/"+id+"/enable", nil)
			if got.Status != http.StatusOK || got.member("id") != id || got.member("disabled_at") != "" || got.member("secret") != "" {
				t.Errorf("enabling it is answered %d %s", got.Status, got.Text)
			}
		}
		time.Sleep(time.Second)
		var posted []string
		bodies, _ := w.outside.got()
		for _, b := range bodies {
			posted = append(posted, b.Data.Step.HandoffID)
		}
		if d := cmp.Diff([]string{first, first, second}, posted); d != "" {
			t.Errorf("posted (-want +got):\n%s", d)
		}
		if strings.Contains(scout.get(t, "/api/v1/inbox").Text, `"waits":true`) {
			t.Error("what was posted waits in the inbox")
		}
	})
}

func TestWebhookIsValidated(t *testing.T) {
	w := newWorld(t)
	scout := w.login(t, "scout")
	refused(t, scout.post(t, "/api/v1/webhooks", `{"url":"https://127.0.0.1/"}`), http.StatusBadRequest, "usage")
	refused(t, scout.post(t, "/api/v1/webhooks", `{"url":""}`), http.StatusBadRequest, "usage")
	refused(t, scout.post(t, "/api/v1/webhooks", `{"url":"https://scout.example/","of":"messages"}`), http.StatusBadRequest, "usage")
	scout.hook(t, "https://scout.example/1")
	refused(t, scout.post(t, "/api/v1/webhooks", `{"url":"https://scout.example/1"}`), http.StatusConflict, "conflict")
	scout.hook(t, "https://scout.example/2")
	refused(t, scout.post(t, "/api/v1/webhooks", `{"url":"https://scout.example/3"}`), http.StatusConflict, "conflict")
	refused(t, scout.get(t, "/api/v1/webhooks/x"), http.StatusBadRequest, "usage")
}
