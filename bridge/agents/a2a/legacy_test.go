package a2a_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// legacyClient returns a client of A2A 0.3, made from the card.
func (a *agent) legacyClient(t *testing.T, endpoint string) *a2aclient.Client {
	t.Helper()
	got := a.w.get(t, cardsOf(endpoint)+"/.well-known/agent.json")
	card, err := a2av0.NewAgentCardParser()([]byte(got.Text))
	if err != nil || got.Status != http.StatusOK {
		t.Fatalf("the card is %d %s, %v", got.Status, got.Text, err)
	}
	for _, member := range []string{`"protocolVersion":"0.3.0"`, `"preferredTransport":"JSONRPC"`, `"url":"` + a.w.url + endpoint + `"`, `"type":"http"`} {
		if !strings.Contains(got.Text, member) {
			t.Errorf("the card lacks %s: %s", member, got.Text)
		}
	}
	if strict := a.w.get(t, cardsOf(endpoint)+"/.well-known/agent-card.json", "A2A-Version", "1.0"); strings.Contains(strict.Text, "preferredTransport") {
		t.Errorf("the card of 1.0 is %s", strict.Text)
	}
	at := &wire.AgentInterface{URL: card.SupportedInterfaces[0].URL, ProtocolBinding: wire.TransportProtocolJSONRPC, ProtocolVersion: a2av0.Version}
	client, err := a2aclient.NewFromEndpoints(t.Context(), []*wire.AgentInterface{at}, a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: http.DefaultClient}),
		a2aclient.WithCallInterceptors(bearer{token: a.token}))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestLegacyClientGivesWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	client := ada.legacyClient(t, bob.path())
	sent, err := client.SendMessage(t.Context(), &wire.SendMessageRequest{
		Message: wire.NewMessage(wire.MessageRoleUser, wire.NewTextPart("Cite three"), wire.NewDataPart(map[string]any{"n": 1})),
		Config:  &wire.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := sent.TaskInfo().TaskID
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
	task, err := client.GetTask(t.Context(), &wire.GetTaskRequest{ID: id})
	if err != nil || last != wire.TaskStateCompleted || task.Status.State != wire.TaskStateCompleted || task.Artifacts[0].Parts[0].Text() != "found" {
		t.Errorf("the stream ends with %s, and the task is %+v, %v", last, task, err)
	}
	if _, err := client.CancelTask(t.Context(), &wire.CancelTaskRequest{ID: id}); !errors.Is(err, wire.ErrTaskNotCancelable) {
		t.Errorf("the cancel of a finished task is %v", err)
	}
	if _, err := client.GetTask(t.Context(), &wire.GetTaskRequest{ID: "none"}); !errors.Is(err, wire.ErrTaskNotFound) {
		t.Errorf("an unknown task is %v", err)
	}
	if _, err := client.CreateTaskPushConfig(t.Context(), &wire.PushConfig{TaskID: id, URL: "https://hooks.example/x"}); !errors.Is(err, wire.ErrPushNotificationNotSupported) {
		t.Errorf("a push configuration is %v", err)
	}
	for event, err := range client.SendStreamingMessage(t.Context(), &wire.SendMessageRequest{Message: wire.NewMessage(wire.MessageRoleUser, wire.NewTextPart("Cite one"))}) {
		if err != nil || event.TaskInfo().TaskID == "" {
			t.Errorf("the stream of a message starts with %+v, %v", event, err)
		}
		break
	}
}

func TestLegacyMethodsNeedTheirVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.login(t, "ada")
	for version, want := range map[string]int{"": -32001, "0.3": -32001, "0.3.0": -32001, "1.0": -32601, "2.0": -32009} {
		got := ada.post(t, "/a2a", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"01K9ZQ0000000000000000000H"}}`, "A2A-Version", version)
		if got.Error == nil || got.Error.Code != want {
			t.Errorf("version %q is answered %s, want %d", version, got.Text, want)
		}
	}
	if got := ada.post(t, "/a2a", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x","id":"y"}}`, "A2A-Version", ""); got.Error == nil || got.Error.Code != -32700 {
		t.Errorf("a member twice is answered %s", got.Text)
	}
}
