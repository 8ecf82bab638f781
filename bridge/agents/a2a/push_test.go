package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

func TestPushConfigurationIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	client := ada.client(t, bob.path())
	task, other := send(t, ada, bob.path(), words("Cite three")), send(t, ada, bob.path(), words("Cite four"))
	full := &wire.PushConfig{TaskID: task.ID, ID: "mine", URL: "https://ada.example/hook", Token: "t0ken", Auth: &wire.PushAuthInfo{Scheme: "Bearer", Credentials: "s3cret"}}
	for range 2 { // the second one replaces the first
		made, err := client.CreateTaskPushConfig(t.Context(), full)
		if diff := cmp.Diff(full, made); diff != "" || err != nil {
			t.Fatalf("created: %v (-want +got):\n%s", err, diff)
		}
	}
	bare, err := client.CreateTaskPushConfig(t.Context(), &wire.PushConfig{TaskID: task.ID, URL: "https://ada.example/hook"})
	if err != nil || bare.ID == "" {
		t.Fatalf("created %+v, %v", bare, err)
	}
	if _, err := client.CreateTaskPushConfig(t.Context(), &wire.PushConfig{TaskID: other.ID, URL: "https://ada.example/hook"}); err != nil {
		t.Errorf("the same address for another task: %v", err)
	}
	got, err := client.GetTaskPushConfig(t.Context(), &wire.GetTaskPushConfigRequest{TaskID: task.ID, ID: "mine"})
	if diff := cmp.Diff(full, got); diff != "" || err != nil {
		t.Errorf("got: %v (-want +got):\n%s", err, diff)
	}
	all, err := client.ListTaskPushConfigs(t.Context(), &wire.ListTaskPushConfigRequest{TaskID: task.ID})
	slices.SortFunc(all, func(a, b *wire.PushConfig) int { return strings.Compare(b.Token, a.Token) }) // they are of one millisecond
	if diff := cmp.Diff([]*wire.PushConfig{full, bare}, all); diff != "" || err != nil {
		t.Errorf("listed: %v (-want +got):\n%s", err, diff)
	}
	for range 2 { // deleting it again is no error
		if err := client.DeleteTaskPushConfig(t.Context(), &wire.DeleteTaskPushConfigRequest{TaskID: task.ID, ID: bare.ID}); err != nil {
			t.Errorf("deleted: %v", err)
		}
	}
	if _, err := client.GetTaskPushConfig(t.Context(), &wire.GetTaskPushConfigRequest{TaskID: task.ID, ID: bare.ID}); !errors.Is(err, wire.ErrTaskNotFound) {
		t.Errorf("a deleted configuration: %v", err)
	}
	if _, err := bob.client(t, bob.path()).ListTaskPushConfigs(t.Context(), &wire.ListTaskPushConfigRequest{TaskID: task.ID}); !errors.Is(err, wire.ErrTaskNotFound) {
		t.Errorf("those of another caller: %v", err)
	}
}

func TestPushSecretsAreSealedInTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three"))
	if _, err := ada.client(t, bob.path()).CreateTaskPushConfig(t.Context(), &wire.PushConfig{
		TaskID: task.ID, URL: "https://ada.example/hook", Token: "t0ken", Auth: &wire.PushAuthInfo{Scheme: "Bearer", Credentials: "s3cret"},
	}); err != nil {
		t.Fatal(err)
	}
	kept, err := w.record.Followers(t.Context(), ada.did, federationID(t, task.ID))
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v, %v", kept, err)
	}
	if text := fmt.Sprintf("%s %+v", kept[0].Sealed, kept[0]); strings.Contains(text, "t0ken") || strings.Contains(text, "s3cret") {
		t.Errorf("the record has %s", text)
	}
}

func TestPushConfigurationIsValidated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three"))
	for name, tt := range map[string]struct {
		config string
		want   []string
	}{
		"no address":        {`"url":""`, []string{"-32602"}},
		"a private address": {`"url":"https://inside.example/"`, []string{"-32602"}},
		"a token of two lines": {
			`"url":"https://ada.example/","token":"a\r\nX-Other: b"`, []string{"-32602"},
		},
		"a scheme of two words": {`"url":"https://ada.example/","authentication":{"scheme":"a b","credentials":"c"}`, []string{"-32602"}},
		"a long ID":             {`"url":"https://ada.example/","id":"` + strings.Repeat("x", 129) + `"`, []string{"-32602"}},
	} {
		got := ada.call(t, bob.path(), "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,%s}`, task.ID, tt.config))
		if diff := cmp.Diff(tt.want, faultOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", name, diff, got.Text)
		}
		sent := ada.call(t, bob.path(), "SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"taskPushNotificationConfig":{`+tt.config+`}}}`)
		if diff := cmp.Diff(tt.want, faultOf(sent)); diff != "" {
			t.Errorf("%s, with a message (-want +got):\n%s", name, diff)
		}
	}
	if _, page := list(t, ada, "/a2a", wire.ListTasksRequest{}); page.TotalSize != 1 {
		t.Errorf("%d tasks, want the first one alone", page.TotalSize)
	}
	for n := range 4 {
		got := ada.call(t, bob.path(), "CreateTaskPushNotificationConfig", fmt.Sprintf(`{"taskId":%q,"url":"https://ada.example/%d"}`, task.ID, n))
		if n == 3 && cmp.Diff([]string{"-32603", "QUOTA_EXCEEDED gw.example"}, faultOf(got)) != "" || n < 3 && got.Error != nil {
			t.Errorf("the configuration %d is answered %s", n, got.Text)
		}
	}
	without := newWorld(t, func(d *deps) { d.Hooks = nil })
	ada, bob = without.login(t, "ada"), without.login(t, "bob").declares(t, "cite")
	task = send(t, ada, bob.path(), words("Cite three"))
	for _, method := range []string{"CreateTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"} {
		got := ada.call(t, bob.path(), method, fmt.Sprintf(`{"taskId":%q,"url":"https://ada.example/"}`, task.ID))
		if diff := cmp.Diff([]string{"-32003", "PUSH_NOTIFICATION_NOT_SUPPORTED a2a-protocol.org"}, faultOf(got)); diff != "" {
			t.Errorf("%s without webhooks (-want +got):\n%s", method, diff)
		}
	}
}

// keepConfig keeps a push configuration of a new task of a world without a listener, whose
// webhooks run until the test ends.
func keepConfig(t *testing.T, w *world) (bob *agent, id wire.TaskID) {
	t.Helper()
	w.outside.came = make(chan struct{}, 9)
	ada := w.login(t, "ada")
	bob = w.login(t, "bob").declares(t, "cite")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, bob.path(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{
		"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"Cite three"}]},
		"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://ada.example/hook","token":"t0ken","authentication":{"scheme":"Bearer","credentials":"s3cret"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("Authorization", "Bearer "+ada.token)
	out := &lines{header: http.Header{}, got: make(chan string, 1)}
	w.mux.ServeHTTP(out, r)
	var sent struct {
		Result struct{ Task struct{ ID wire.TaskID } }
	}
	if text := <-out.got; json.Unmarshal([]byte(text), &sent) != nil || sent.Result.Task.ID == "" {
		t.Fatalf("the message is answered %s", text)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.hooks.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return bob, sent.Result.Task.ID
}

func TestPushPostsEachStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, "https://gw.example", http.NewServeMux())
		bob, id := keepConfig(t, w)
		bob.takes(t, id, federation.Accept, participant.StepRequest{})
		bob.takes(t, id, federation.Complete, participant.StepRequest{Note: "here"})
		var got []string
		for range 3 {
			<-w.outside.came
		}
		for _, p := range w.outside.posts {
			var event wire.StreamResponse
			if err := json.Unmarshal([]byte(p.body), &event); err != nil {
				t.Fatalf("%s: %v", p.body, err)
			}
			got = append(got, p.address+" "+eventLine(event.Event))
			want := http.Header{"Content-Type": {"application/a2a+json"}, "User-Agent": {"Baton"}, "X-A2a-Notification-Token": {"t0ken"}, "Authorization": {"Bearer s3cret"}}
			if diff := cmp.Diff(want, p.header); diff != "" {
				t.Errorf("the header (-want +got):\n%s", diff)
			}
		}
		want := []string{
			"https://ada.example/hook TASK_STATE_WORKING", "https://ada.example/hook artifact result here", "https://ada.example/hook TASK_STATE_COMPLETED",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the posts (-want +got):\n%s", diff)
		}
	})
}

func TestPushRetriesUntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, "https://gw.example", http.NewServeMux())
		w.outside.status = http.StatusBadGateway
		bob, id := keepConfig(t, w)
		started := time.Now()
		bob.takes(t, id, federation.Accept, participant.StepRequest{})
		<-w.outside.came
		w.outside.answer(http.StatusOK)
		<-w.outside.came
		if waited := time.Since(started); waited < time.Minute {
			t.Errorf("the second attempt is after %v", waited)
		}
		synctest.Wait()
		w.outside.answer(http.StatusBadGateway)
		bob.takes(t, id, federation.Progress, participant.StepRequest{Note: "one"})
		<-w.outside.came
		<-w.outside.came // the last of two attempts
		synctest.Wait()
		hooks, err := w.record.Webhooks(t.Context(), "", federation.WebhookID{}, 9)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := w.record.WebhookBacklog(t.Context(), hooks[0].ID); b.Dead != 1 || b.Rows != 0 || err != nil {
			t.Errorf("the backlog is %+v, %v; want one dead letter", b, err)
		}
	})
}

func (o *outside) answer(status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status = status
}

func TestPushWithUnreadableSecretsIsADeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three"))
	h := federation.Webhook{DID: ada.did, Handoff: federationID(t, task.ID), URL: "https://ada.example/", Sealed: []byte("of another key, with another nonce")}
	if _, err := w.link.Posts(t.Context(), h, federation.Push{}); !errors.Is(err, bridge.ErrBroken) {
		t.Errorf("Posts: %v", err)
	}
}
