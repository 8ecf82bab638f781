package a2a_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// The official client does the same over both bindings.
func TestHTTPJSONServesTheOfficialClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	client := ada.clientOver(t, bob.path(), wire.TransportProtocolHTTPJSON)
	sent, err := client.SendMessage(t.Context(), &wire.SendMessageRequest{
		Message: wire.NewMessage(wire.MessageRoleUser, wire.NewTextPart("Cite three")), Config: &wire.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := sent.TaskInfo().TaskID
	if task, err := client.GetTask(t.Context(), &wire.GetTaskRequest{ID: id}); err != nil || task.Status.State != wire.TaskStateSubmitted {
		t.Errorf("the task is %+v, %v", task, err)
	}
	config, err := client.CreateTaskPushConfig(t.Context(), &wire.PushConfig{TaskID: id, ID: "c", URL: "https://hooks.example/x"})
	if err != nil || config.ID != "c" {
		t.Errorf("the push configuration is %+v, %v", config, err)
	}
	if found, err := client.GetTaskPushConfig(t.Context(), &wire.GetTaskPushConfigRequest{TaskID: id, ID: "c"}); err != nil || found.URL != "https://hooks.example/x" {
		t.Errorf("the push configuration is read as %+v, %v", found, err)
	}
	if all, err := client.ListTaskPushConfigs(t.Context(), &wire.ListTaskPushConfigRequest{TaskID: id}); err != nil || len(all) != 1 {
		t.Errorf("the push configurations are %+v, %v", all, err)
	}
	if err := client.DeleteTaskPushConfig(t.Context(), &wire.DeleteTaskPushConfigRequest{TaskID: id, ID: "c"}); err != nil {
		t.Errorf("the removal is %v", err)
	}
	states := make(chan wire.TaskState, 8)
	go func() {
		defer close(states)
		for event, err := range client.SubscribeToTask(t.Context(), &wire.SubscribeToTaskRequest{ID: id}) {
			switch e := event.(type) {
			case *wire.Task:
				states <- e.Status.State
			case *wire.TaskStatusUpdateEvent:
				states <- e.Status.State
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	if first := <-states; first != wire.TaskStateSubmitted {
		t.Errorf("the stream starts with %s", first)
	}
	bob.takes(t, id, federation.Accept, participant.StepRequest{})
	bob.takes(t, id, federation.Complete, participant.StepRequest{Note: "found"})
	var last wire.TaskState
	for state := range states {
		last = state
	}
	if last != wire.TaskStateCompleted {
		t.Errorf("the stream ends with %s", last)
	}
	listed, err := client.ListTasks(t.Context(), &wire.ListTasksRequest{PageSize: 10, Status: wire.TaskStateCompleted})
	if err != nil || len(listed.Tasks) != 1 || listed.Tasks[0].ID != id {
		t.Errorf("the list is %+v, %v", listed, err)
	}
	if _, err := client.CancelTask(t.Context(), &wire.CancelTaskRequest{ID: id}); !errors.Is(err, wire.ErrTaskNotCancelable) {
		t.Errorf("the cancel of a finished task is %v", err)
	}
	for _, err := range client.SubscribeToTask(t.Context(), &wire.SubscribeToTaskRequest{ID: id}) {
		if !errors.Is(err, wire.ErrUnsupportedOperation) {
			t.Errorf("a finished task is subscribed to with %v", err)
		}
	}
	if _, err := client.GetTask(t.Context(), &wire.GetTaskRequest{ID: "01K9ZQ0000000000000000000H"}); !errors.Is(err, wire.ErrTaskNotFound) {
		t.Errorf("an unknown task is %v", err)
	}
}

func TestHTTPJSONAnswersErrorsWithAStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.login(t, "ada")
	for _, tt := range []struct {
		path, body string
		header     []string
		status     int
		want       string
	}{
		{path: "message:send", body: `{`, status: http.StatusBadRequest, want: "INVALID_ARGUMENT"},
		{path: "message:send", body: `[]`, status: http.StatusBadRequest, want: "INVALID_ARGUMENT"},
		{path: "message:send", body: `{}`, status: http.StatusBadRequest, want: "INVALID_ARGUMENT"},
		{path: "message:stream", body: `{}`, status: http.StatusBadRequest, want: "INVALID_ARGUMENT"},
		{path: "message:send", body: `{}`, header: []string{"Content-Type", "text/plain"}, status: http.StatusBadRequest, want: "CONTENT_TYPE_NOT_SUPPORTED"},
		{path: "message:send", body: `{}`, header: []string{"A2A-Version", "0.3"}, status: http.StatusBadRequest, want: "VERSION_NOT_SUPPORTED"},
		{path: "tasks/01K9ZQ0000000000000000000H:cancel", body: `{}`, status: http.StatusNotFound, want: "TASK_NOT_FOUND"},
		{path: "tasks/01K9ZQ0000000000000000000H:subscribe", body: ``, status: http.StatusNotFound, want: "TASK_NOT_FOUND"},
		{path: "tasks/01K9ZQ0000000000000000000H:pause", body: ``, status: http.StatusNotImplemented, want: "UNIMPLEMENTED"},
		{path: "message:send", body: `{}`, header: []string{"Authorization", ""}, status: http.StatusUnauthorized, want: ""},
	} {
		got := ada.post(t, "/a2a/v1/"+tt.path, tt.body, tt.header...)
		if got.Status != tt.status || !strings.Contains(got.Text, tt.want) {
			t.Errorf("%s %s is answered %d %s", tt.path, tt.body, got.Status, got.Text)
		}
	}
}

func TestHTTPJSONAnswersInTheMediaTypeOfTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.login(t, "ada")
	for media, header := range map[string][]string{
		"application/json":     {"Accept", "*/*"},
		"application/a2a+json": {"Accept", "application/a2a+json"},
	} {
		rest := ada.post(t, "/a2a/v1/tasks/x:cancel", `{}`, header...)
		rpc := ada.post(t, "/a2a", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, header...)
		if rest.Header.Get("Content-Type") != media || rpc.Header.Get("Content-Type") != media {
			t.Errorf("%v is answered %s and %s", header, rest.Header.Get("Content-Type"), rpc.Header.Get("Content-Type"))
		}
	}
	sent := ada.post(t, "/a2a", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`, "Content-Type", "application/a2a+json")
	if got := sent.Header.Get("Content-Type"); got != "application/a2a+json" || sent.Result == nil {
		t.Errorf("it is answered %s %s", got, sent.Text)
	}
}

// Parsers of ProtoJSON read the names of the protocol buffers too.
func TestHTTPJSONAcceptsOriginalNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	got := ada.call(t, bob.path(), "SendMessage", `{"message":{"message_id":"m1","context_id":"c1","role":"ROLE_USER",`+
		`"parts":[{"text":"Cite"},{"data":{"task_id":"kept","n":1.0},"media_type":"application/json"}],"metadata":{"page_size":"kept"}},"configuration":{"return_immediately":true}}`)
	var sent struct {
		Task struct{ ID, ContextID string }
	}
	if err := json.Unmarshal(got.Result, &sent); err != nil || sent.Task.ContextID != "c1" || sent.Task.ID == "" {
		t.Fatalf("it is answered %s, %v", got.Text, err)
	}
	if !strings.Contains(got.Text, `"task_id":"kept"`) {
		t.Errorf("free-form data is changed: %s", got.Text)
	}
	listed := ada.call(t, bob.path(), "ListTasks", `{"page_size":1,"context_id":"c1"}`)
	if !strings.Contains(listed.Text, sent.Task.ID) || !strings.Contains(listed.Text, `"pageSize":1`) {
		t.Errorf("the list is %s", listed.Text)
	}
	twice := ada.call(t, bob.path(), "ListTasks", `{"page_size":1,"pageSize":2}`)
	if twice.Error == nil || twice.Error.Code != -32602 {
		t.Errorf("both names are answered %s", twice.Text)
	}
}

// An error before the first event is an answer by itself, unless the client asked for events.
func TestSubscribeRefusesAFinishedTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	sent, err := ada.client(t, bob.path()).SendMessage(t.Context(), &wire.SendMessageRequest{
		Message: wire.NewMessage(wire.MessageRoleUser, wire.NewTextPart("Cite")), Config: &wire.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := sent.TaskInfo().TaskID
	bob.takes(t, id, federation.Accept, participant.StepRequest{})
	bob.takes(t, id, federation.Complete, participant.StepRequest{})
	for accept, media := range map[string]string{"*/*": "application/json", "text/event-stream": "text/event-stream"} {
		got := ada.post(t, bob.path(), `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"`+string(id)+`"}}`, "Accept", accept)
		if got.Error == nil || got.Error.Code != -32004 || got.Header.Get("Content-Type") != media {
			t.Errorf("with Accept %s it is answered %s %s", accept, got.Header.Get("Content-Type"), got.Text)
		}
	}
}
