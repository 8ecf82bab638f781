package a2a_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// send sends a message and returns its task at once.
func send(tb testing.TB, a *agent, endpoint string, m *wire.Message) *wire.Task {
	tb.Helper()
	got, err := a.client(tb, endpoint).SendMessage(tb.Context(), &wire.SendMessageRequest{
		Message: m, Config: &wire.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		tb.Fatalf("SendMessage: %v", err)
	}
	task, ok := got.(*wire.Task)
	if !ok {
		tb.Fatalf("SendMessage returns a %T", got)
	}
	return task
}

func words(text string) *wire.Message {
	return wire.NewMessage(wire.MessageRoleUser, wire.NewTextPart(text))
}

// shown is the part of a task that a state decides.
type shown struct {
	State    wire.TaskState
	Message  string
	Artifact string
	History  []string
}

func shownOf(task *wire.Task) shown {
	s := shown{State: task.Status.State}
	if m := task.Status.Message; m != nil {
		s.Message = string(m.Role) + " " + m.Parts[0].Text()
	}
	for _, a := range task.Artifacts {
		text, err := json.Marshal(a.Parts)
		s.Artifact = a.Name + " " + string(text)
		if err != nil {
			s.Artifact = err.Error()
		}
	}
	for _, m := range task.History {
		s.History = append(s.History, string(m.Role)+" "+m.Parts[0].Text())
	}
	return s
}

func TestTaskStateFollowsItsHandoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	note := func(text string) participant.StepRequest { return participant.StepRequest{Note: text} }
	type step struct {
		verb federation.Verb
		step participant.StepRequest
	}
	const opened = "ROLE_USER Cite three sources"
	for name, tt := range map[string]struct {
		open  bool
		steps []step
		want  shown
	}{
		"offered":  {want: shown{State: wire.TaskStateSubmitted, History: []string{opened}}},
		"open":     {open: true, want: shown{State: wire.TaskStateSubmitted, History: []string{opened}}},
		"accepted": {steps: []step{{federation.Accept, note("on it")}}, want: shown{State: wire.TaskStateWorking, History: []string{opened}}},
		"claimed":  {open: true, steps: []step{{federation.Claim, note("")}}, want: shown{State: wire.TaskStateWorking, History: []string{opened}}},
		"under way": {
			steps: []step{{federation.Accept, note("")}, {federation.Progress, note("one of three")}, {federation.Progress, note("two of three")}},
			want: shown{
				State: wire.TaskStateWorking, Message: "ROLE_AGENT two of three",
				History: []string{opened, "ROLE_AGENT one of three", "ROLE_AGENT two of three"},
			},
		},
		"completed with a note and a context": {
			steps: []step{{federation.Accept, note("")}, {federation.Progress, note("half")}, {federation.Complete, participant.StepRequest{Note: "here", Context: json.RawMessage(`{"sources":3}`)}}},
			want: shown{
				State: wire.TaskStateCompleted, Artifact: `result [{"text":"here"},{"data":{"sources":3}}]`, History: []string{opened, "ROLE_AGENT half"},
			},
		},
		"completed with a link": {
			steps: []step{{federation.Accept, note("")}, {federation.Complete, participant.StepRequest{Context: json.RawMessage(`"https://results.example/3"`)}}},
			want:  shown{State: wire.TaskStateCompleted, Artifact: `result [{"url":"https://results.example/3"}]`, History: []string{opened}},
		},
		"completed without a word": {
			steps: []step{{federation.Accept, note("")}, {federation.Complete, note("")}},
			want:  shown{State: wire.TaskStateCompleted, History: []string{opened}},
		},
		"failed": {
			steps: []step{{federation.Accept, note("")}, {federation.Fail, note("no sources")}},
			want:  shown{State: wire.TaskStateFailed, Message: "ROLE_AGENT no sources", History: []string{opened}},
		},
		"declined": {
			steps: []step{{federation.Decline, note("busy")}},
			want:  shown{State: wire.TaskStateRejected, Message: "ROLE_AGENT busy", History: []string{opened}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := bob.path()
			if tt.open {
				endpoint = "/a2a"
			}
			task := send(t, ada, endpoint, wire.NewMessage(wire.MessageRoleUser, wire.NewTextPart("Cite three sources"), wire.NewDataPart(map[string]any{"on": "X"})))
			worker := bob
			if tt.open { // the offer asks for no capability, and only its offerer sees it
				worker = ada
			}
			for _, s := range tt.steps {
				worker.takes(t, task.ID, s.verb, s.step)
			}
			got, err := ada.client(t, endpoint).GetTask(t.Context(), &wire.GetTaskRequest{ID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, shownOf(got)); diff != "" {
				t.Errorf("the task (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTaskCanceledHasItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three sources"))
	client := ada.client(t, bob.path())
	got, err := client.CancelTask(t.Context(), &wire.CancelTaskRequest{ID: task.ID, Metadata: map[string]any{"reason": "found them"}})
	if err != nil {
		t.Fatal(err)
	}
	want := shown{State: wire.TaskStateCanceled, Message: "ROLE_USER found them", History: []string{"ROLE_USER Cite three sources"}}
	if diff := cmp.Diff(want, shownOf(got)); diff != "" {
		t.Errorf("the task (-want +got):\n%s", diff)
	}
	if _, err := client.CancelTask(t.Context(), &wire.CancelTaskRequest{ID: task.ID}); !errors.Is(err, wire.ErrTaskNotCancelable) {
		t.Errorf("a second cancel: %v", err)
	}
	working := send(t, ada, bob.path(), words("And two more"))
	bob.takes(t, working.ID, federation.Accept, participant.StepRequest{})
	answer := ada.call(t, bob.path(), "CancelTask", fmt.Sprintf(`{"id":%q}`, working.ID))
	if diff := cmp.Diff([]string{"-32004", "UNSUPPORTED_OPERATION a2a-protocol.org", "ILLEGAL_STEP gw.example"}, faultOf(answer)); diff != "" {
		t.Errorf("the cancel of work under way (-want +got):\n%s", diff)
	}
}

func TestTaskExpiredIsFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	m := words("Cite three sources")
	m.Metadata = map[string]any{"handoff": map[string]any{"deadline": time.Now().Add(time.Hour)}}
	task := send(t, ada, bob.path(), m)
	if _, err := w.gateway.home.Sweep(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	got, err := ada.client(t, bob.path()).GetTask(t.Context(), &wire.GetTaskRequest{ID: task.ID})
	if err != nil {
		t.Fatal(err)
	}
	want := shown{State: wire.TaskStateFailed, Message: "ROLE_AGENT expired", History: []string{"ROLE_USER Cite three sources"}}
	if diff := cmp.Diff(want, shownOf(got)); diff != "" {
		t.Errorf("the task (-want +got):\n%s", diff)
	}
}

// faultOf returns the code of an error, and the reason and domain of each detail.
func faultOf(a answer) []string {
	if a.Error == nil {
		return nil
	}
	found := []string{fmt.Sprint(a.Error.Code)}
	for _, detail := range a.Error.Data {
		found = append(found, fmt.Sprintf("%s %s", detail["reason"], detail["domain"]))
	}
	return found
}

func TestTaskNamesItsHandoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	m := words("Cite three sources")
	m.ContextID = "thesis:1"
	task := send(t, ada, bob.path(), m)
	bob.takes(t, task.ID, federation.Accept, participant.StepRequest{})
	got := ada.call(t, bob.path(), "GetTask", fmt.Sprintf(`{"id":%q}`, task.ID))
	var read struct {
		ID, ContextID string
		Status        struct{ Timestamp string }
		History       []struct{ MessageID, ContextID, TaskID string }
		Metadata      struct{ Handoff map[string]any }
	}
	if err := json.Unmarshal(got.Result, &read); err != nil {
		t.Fatal(err)
	}
	view, err := w.record.View(t.Context(), federationID(t, task.ID))
	if err != nil {
		t.Fatal(err)
	}
	if want := view.Moved.UTC().Format("2006-01-02T15:04:05.000Z"); read.Status.Timestamp != want {
		t.Errorf("timestamp %q, want %q", read.Status.Timestamp, want)
	}
	if read.ID != view.ID.String() || read.ContextID != "thesis:1" {
		t.Errorf("task %s of context %s", read.ID, read.ContextID)
	}
	if h := read.History[0]; h.MessageID != m.ID || h.ContextID != "thesis:1" || h.TaskID != read.ID {
		t.Errorf("the message of the offer is %+v", h)
	}
	want := map[string]any{
		"kind": "handoff", "state": "assigned", "home": "gw.example", "version": 2.0, "offerer": string(ada.did), "offeree": string(bob.did),
		"assignee": string(bob.did), "provenance": "vouched", "verdict": "valid", "passport": w.url + "/api/v1/handoffs/" + read.ID + "/passport",
	}
	if diff := cmp.Diff(want, read.Metadata.Handoff); diff != "" {
		t.Errorf("metadata.handoff (-want +got):\n%s", diff)
	}
}

func federationID(tb testing.TB, id wire.TaskID) federation.HandoffID {
	tb.Helper()
	parsed, err := federation.ParseEventID(string(id))
	if err != nil {
		tb.Fatal(err)
	}
	return parsed
}

func TestTaskOfARESTHandoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	filed, err := w.access.Offer(t.Context(), ada.caller, participant.Offer{To: string(bob.did), Title: "By REST", Context: json.RawMessage(`{"a":1}`)}, participant.Request{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ada.client(t, bob.path()).GetTask(t.Context(), &wire.GetTaskRequest{ID: wire.TaskID(filed.ID)})
	if err != nil {
		t.Fatal(err)
	}
	if m := got.History[0]; got.ContextID != filed.ID || m.ID != filed.EventID || m.Parts[0].Text() != "By REST" || m.Parts[1].Data() == nil {
		t.Errorf("the task is %+v with %+v", got, m)
	}
}

func TestTaskHistoryHasTheRequestedLength(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three sources"))
	bob.takes(t, task.ID, federation.Accept, participant.StepRequest{})
	bob.takes(t, task.ID, federation.Progress, participant.StepRequest{Note: "one"})
	bob.takes(t, task.ID, federation.Progress, participant.StepRequest{Note: "two"})
	client := ada.client(t, bob.path())
	for length, want := range map[int][]string{
		0: nil, 1: {"ROLE_AGENT two"}, 2: {"ROLE_AGENT one", "ROLE_AGENT two"}, 9: {"ROLE_USER Cite three sources", "ROLE_AGENT one", "ROLE_AGENT two"},
	} {
		got, err := client.GetTask(t.Context(), &wire.GetTaskRequest{ID: task.ID, HistoryLength: &length})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, shownOf(got).History); diff != "" {
			t.Errorf("historyLength %d (-want +got):\n%s", length, diff)
		}
	}
	if got := ada.call(t, bob.path(), "GetTask", fmt.Sprintf(`{"id":%q,"historyLength":-1}`, task.ID)); got.Error == nil || got.Error.Code != -32602 {
		t.Errorf("a negative length is answered %s", got.Text)
	}
}

func TestTaskIsShownOnlyToItsOfferer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob, cleo := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite"), w.login(t, "cleo").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three sources"))
	open := send(t, ada, "/a2a", words("Anyone?"))
	never := "01K9ZQ0000000000000000000H"
	for name, tt := range map[string]struct {
		who  *agent
		path string
		id   string
	}{
		"the offeree":                     {bob, bob.path(), string(task.ID)},
		"another agent":                   {cleo, bob.path(), string(task.ID)},
		"at the endpoint of another":      {ada, cleo.path(), string(task.ID)},
		"an open one at that of an agent": {ada, bob.path(), string(open.ID)},
		"one that never was":              {ada, bob.path(), never},
		"an ID that is no ULID":           {ada, bob.path(), "task-1"},
	} {
		for _, method := range []string{"GetTask", "CancelTask", "SubscribeToTask"} {
			got := tt.who.call(t, tt.path, method, fmt.Sprintf(`{"id":%q}`, tt.id))
			if diff := cmp.Diff([]string{"-32001", "TASK_NOT_FOUND a2a-protocol.org"}, faultOf(got)); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", method, name, diff)
			}
			if got.Error.Message != "there is no such task" {
				t.Errorf("%s of %s says %q", method, name, got.Error.Message)
			}
		}
	}
	if _, err := ada.client(t, "/a2a").GetTask(t.Context(), &wire.GetTaskRequest{ID: task.ID}); err != nil {
		t.Errorf("at the endpoint of the gateway: %v", err)
	}
}
