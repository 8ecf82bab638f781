package a2a_test

import (
	"errors"
	"fmt"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// unread returns how many steps wait in the inbox of an agent.
func (a *agent) unread(t *testing.T) int {
	t.Helper()
	n, _, err := a.w.record.Waiting(t.Context(), a.did)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// finish accepts and completes a task, which leaves two unread steps to its offerer.
func (a *agent) finish(t *testing.T, id wire.TaskID) {
	t.Helper()
	a.takes(t, id, federation.Accept, participant.StepRequest{})
	a.takes(t, id, federation.Complete, participant.StepRequest{Note: "here"})
}

func TestReadTaskIsReadInTheInbox(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reads func(t *testing.T, client *a2aclient.Client, id wire.TaskID) error
		want  int
	}{
		"GetTask": {func(t *testing.T, client *a2aclient.Client, id wire.TaskID) error {
			t.Helper()
			_, err := client.GetTask(t.Context(), &wire.GetTaskRequest{ID: id})
			return err
		}, 0},
		"ListTasks with artifacts": {func(t *testing.T, client *a2aclient.Client, _ wire.TaskID) error {
			t.Helper()
			_, err := client.ListTasks(t.Context(), &wire.ListTasksRequest{IncludeArtifacts: true})
			return err
		}, 0},
		"ListTasks without the result": {func(t *testing.T, client *a2aclient.Client, _ wire.TaskID) error {
			t.Helper()
			_, err := client.ListTasks(t.Context(), &wire.ListTasksRequest{})
			return err
		}, 2},
		"a refused CancelTask": {func(t *testing.T, client *a2aclient.Client, id wire.TaskID) error {
			t.Helper()
			if _, err := client.CancelTask(t.Context(), &wire.CancelTaskRequest{ID: id}); !errors.Is(err, wire.ErrTaskNotCancelable) {
				return fmt.Errorf("it is answered %w", err)
			}
			return nil
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
			client := ada.client(t, bob.path())
			id := send(t, ada, bob.path(), words(name)).ID
			bob.finish(t, id)
			if before := ada.unread(t); before != 2 {
				t.Fatalf("%d unread steps before, want 2", before)
			}
			if err := tt.reads(t, client, id); err != nil {
				t.Fatal(err)
			}
			if got := ada.unread(t); got != tt.want {
				t.Errorf("%d unread steps are left, want %d", got, tt.want)
			}
			if kept, err := w.record.Replay(t.Context(), ada.did, "", 100); err != nil || len(kept) != 2 {
				t.Errorf("the inbox has %d steps, %v; want both", len(kept), err)
			}
		})
	}
}

func TestStreamReadsTheInboxStepByStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	var unread []int
	events := ada.client(t, bob.path()).SendStreamingMessage(t.Context(), &wire.SendMessageRequest{Message: words("Cite three")})
	read(t, events, func(n int, e wire.Event) {
		id := e.TaskInfo().TaskID
		switch n {
		case 1:
			bob.takes(t, id, federation.Accept, participant.StepRequest{})
		case 2:
			bob.takes(t, id, federation.Progress, participant.StepRequest{Note: "one"})
		case 3:
			unread = append(unread, ada.unread(t)) // the last step may still wait
			bob.takes(t, id, federation.Complete, participant.StepRequest{Note: "here"})
		}
	})
	if got := ada.unread(t); got != 0 || unread[0] > 1 {
		t.Errorf("%v unread steps during the stream and %d after it, want at most one and none", unread, got)
	}
}
