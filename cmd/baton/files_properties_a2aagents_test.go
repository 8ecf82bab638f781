//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// agentsTask offers work to the external agent, and returns the handoff and the task of the agent.
func (w *propertyWorld) agentsTask(t *testing.T, title string) (id string, task *bridgetest.A2ATask) {
	t.Helper()
	id = w.scholar.offer(t, map[string]any{"to": researcher, "title": title})
	return id, taskFor(t, w.agent, title)
}

// taskFor waits for the task of an agent whose offer has a title.
func taskFor(t *testing.T, agent *bridgetest.A2AAgent, title string) (task *bridgetest.A2ATask) {
	t.Helper()
	await(t, "the task "+title, func() bool {
		all := agent.Tasks()
		i := slices.IndexFunc(all, func(task *bridgetest.A2ATask) bool { return agent.Texts(task)[0] == title })
		if i >= 0 {
			task = all[i]
		}
		return i >= 0
	})
	return task
}

// A push notification with a forged token reaches no task.
func (w *propertyWorld) forgedNotification(t *testing.T) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url()+"/a2a/callback/"+strings.Repeat("0", 64), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("a forged token is answered %d", response.StatusCode)
	}
}

// The agent has no task of an expired offer, or is asked to cancel it.
func (w *propertyWorld) expiredAgentsTask(t *testing.T) {
	t.Helper()
	before := w.agent.Calls("CancelTask")
	id := w.scholar.offer(t, map[string]any{"to": researcher, "title": "late for the agent", "deadline": "2026-01-01T00:00:00Z"})
	await(t, "the offer to expire", func() bool { return w.state(t, id) == "expired" })
	w.agentsTask(t, "in time for the agent")
	await(t, "no task of the expired offer", func() bool {
		late := func(task *bridgetest.A2ATask) bool { return w.agent.Texts(task)[0] == "late for the agent" }
		return !slices.ContainsFunc(w.agent.Tasks(), late) || w.agent.Calls("CancelTask") > before
	})
}

func (w *propertyWorld) agentsTaskTwice(t *testing.T) {
	t.Helper()
	id, task := w.agentsTask(t, "twice for the agent")
	for range 2 {
		task.Say(wire.TaskStateWorking, "")
	}
	task.Say(wire.TaskStateCompleted, "done")
	await(t, "the result", func() bool { return w.state(t, id) == "completed" })
	if got := w.scholar.handoff(t, id).verbs(); got != "offer, accept, complete done" {
		t.Errorf("the steps are %s", got)
	}
}

// The agent gets no work of others, and others do not get its work.
func (w *propertyWorld) agentsTaskOfOthers(t *testing.T) {
	t.Helper()
	w.scholar.offer(t, map[string]any{"to": native("research", "reviewer"), "title": "not for the agent"})
	id, _ := w.agentsTask(t, "for the agent")
	refusedRequest(t, w.outside, "handoffs/"+id+"/accept", nil)
	for _, task := range w.agent.Tasks() {
		if w.agent.Texts(task)[0] == "not for the agent" {
			t.Error("the agent got the work of another one")
		}
	}
}

// a2aWorker is an external A2A agent. It offers nothing.
func a2aWorker(agent *bridgetest.A2AAgent) worker {
	canceled := 0
	return worker{
		network: "external A2A", did: researcher, address: "researcher@researcher",
		reads: func(t *testing.T, s stepLine) string {
			t.Helper()
			if s.verb == "cancel" {
				canceled++
				await(t, fmt.Sprint(s), func() bool { return agent.Calls("CancelTask") == canceled })
				return ""
			}
			taskFor(t, agent, s.title)
			return s.title
		},
		takes: func(t *testing.T, title, verb, note string) {
			t.Helper()
			state := map[string]wire.TaskState{
				"accept": wire.TaskStateWorking, "progress": wire.TaskStateWorking, "complete": wire.TaskStateCompleted, "decline": wire.TaskStateRejected,
			}[verb]
			taskFor(t, agent, title).Say(state, note)
		},
	}
}
