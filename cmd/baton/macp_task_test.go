//go:build long

package main_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/macpmode/taskv1"
)

// taskHouse is a gateway with the profile task-follow-on on the runtime of the authors of the
// protocol. It participates for scholar, an agent over plain HTTP. Bob is another participant.
type taskHouse struct {
	*house

	scholar *caller
	bob     *bridgetest.MACPClient
}

func newTaskHouse(t *testing.T) *taskHouse {
	t.Helper()
	const bobToken, batonToken = macpToken + "bob", macpToken + "baton"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	address := federationtest.FreeAddr(t)
	runtime, err := bridgetest.RunMACPRuntime(ctx, address, t.TempDir(),
		bridgetest.MACPToken{Token: bobToken, Sender: "bob", Starts: true}, bridgetest.MACPToken{Token: batonToken, Sender: "baton", Starts: true})
	if err != nil {
		t.Fatalf("%v: run .ci/run install full", err)
	}
	t.Cleanup(runtime.Stop)
	w := &taskHouse{house: newHouse(t), bob: bridgetest.NewMACPClient(address, "bob", bobToken)}
	t.Cleanup(w.bob.Close)
	w.keep(t, "baton.token", batonToken)
	w.start(t)
	w.scholar = logIn(t, w.url())
	w.configure(t, fmt.Sprintf("[[macp.runtimes]]\nname = \"research\"\nurl = \"http://%s\"\ntoken_file = \"baton.token\"\nparticipant = \"baton\"\ndid = %q\nprofile = \"task-follow-on\"\n",
		address, w.scholar.did))
	w.dies(t)
	return w
}

// dies kills the gateway and starts it again.
func (w *taskHouse) dies(t *testing.T) {
	t.Helper()
	w.kill(t)
	w.start(t)
	w.ready(t)
}

// says sends a message of bob, which the runtime is to accept, and kills the gateway.
func (w *taskHouse) says(t *testing.T, mode, session, kind string, payload proto.Message) {
	t.Helper()
	env, err := w.bob.Envelope(session, kind, "bob:"+kind, payload)
	if err != nil {
		t.Fatal(err)
	}
	env.Mode = mode
	if ack, err := w.bob.SendEnvelope(t.Context(), env); err != nil || !ack.GetOk() {
		t.Fatalf("%s is answered %v, %v", kind, ack, err)
	}
	w.dies(t)
}

// opened returns the session of a mode that the gateway opened.
func (w *taskHouse) opened(t *testing.T, mode string) *macpv1.SessionMetadata {
	t.Helper()
	var found *macpv1.SessionMetadata
	await(t, "a session of "+mode, func() bool {
		list, err := bridgetest.MACPCall[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](t.Context(), w.bob, "ListSessions", &macpv1.ListSessionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.GetSessions() {
			if s.GetMode() == mode && s.GetInitiator() == "baton" {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// reads returns the steps of a handoff in the inbox of scholar, once there are so many.
func (w *taskHouse) reads(t *testing.T, id string, count int) []string {
	t.Helper()
	var steps []string
	for cursor := ""; len(steps) < count; {
		for _, entry := range w.scholar.reads(t, cursor) {
			if cursor = entry.Cursor; entry.Step.HandoffID == id {
				steps = append(steps, strings.TrimSpace(entry.Step.Verb+" "+entry.Step.Note+" "+entry.Step.Context))
			}
		}
	}
	return steps
}

// A gateway killed between any two messages of a transfer and of the following task files each
// report of the assignee once.
func TestMACPTaskReportIsFiledOnceOverKills(t *testing.T) {
	t.Parallel()
	w := newTaskHouse(t)
	id := w.scholar.offer(t, map[string]any{"to": "did:web:gw.test:macp:research:bob", "title": "Review it", "context": map[string]any{"draft": 7}})
	w.dies(t)
	offered := w.opened(t, macpmode.Mode).GetSessionId()
	sees(t, w.bob, offered, isType(macpmode.TypeContext))
	w.says(t, macpmode.Mode, offered, macpmode.TypeAccept, &handoffv1.HandoffAcceptPayload{HandoffId: id, Reason: "gladly"})
	task := w.opened(t, macpmode.TaskMode).GetSessionId()
	w.dies(t)
	sees(t, w.bob, task, isType(macpmode.TypeTaskRequest))
	w.says(t, macpmode.TaskMode, task, macpmode.TypeTaskAccept, &taskv1.TaskAcceptPayload{TaskId: id})
	w.says(t, macpmode.TaskMode, task, macpmode.TypeTaskUpdate, &taskv1.TaskUpdatePayload{TaskId: id, Message: "half", Progress: 0.5})
	w.says(t, macpmode.TaskMode, task, macpmode.TypeTaskFail, &taskv1.TaskFailPayload{TaskId: id, Reason: "no library", ErrorCode: "E7", Retryable: true})
	var p macpv1.CommitmentPayload
	if err := proto.Unmarshal(sees(t, w.bob, task, isType(macpmode.TypeCommitment)).GetPayload(), &p); err != nil || p.GetAction() != "task.failed" || p.GetOutcomePositive() {
		t.Errorf("the task is committed as %v, %v", &p, err)
	}
	w.dies(t)
	want := []string{"accept gladly", `progress half {"progress":0.5}`, `fail no library {"error_code":"E7","retryable":true}`}
	if steps := w.reads(t, id, len(want)); !slices.Equal(steps, want) {
		t.Errorf("scholar reads %q, want %q", steps, want)
	}
}

// A gateway killed between any two messages says each step of its assignee once in the task of
// the offerer.
func TestMACPTaskStepIsSentOnceOverKills(t *testing.T) {
	t.Parallel()
	w := newTaskHouse(t)
	const transfer, task, contextID = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "ctx:sha256:00"
	start := &macpv1.SessionStartPayload{
		Intent: macpTitle, Participants: []string{"bob", "baton"}, ModeVersion: macpmode.ModeVersion, ConfigurationVersion: "test", TtlMs: 600_000, ContextId: contextID,
	}
	commitment := &macpv1.CommitmentPayload{
		CommitmentId: "c1", Action: "handoff.accepted", AuthorityScope: "research", Reason: "done", ModeVersion: macpmode.ModeVersion, ConfigurationVersion: "test",
		PolicyVersion: macpmode.DefaultPolicy, OutcomePositive: true,
	}
	w.says(t, macpmode.Mode, transfer, macpmode.TypeSessionStart, start)
	w.says(t, macpmode.Mode, transfer, macpmode.TypeOffer, &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: "baton", Scope: "research"})
	id := w.scholar.reads(t, "")[0].Step.HandoffID
	for _, step := range []struct{ verb, note string }{{"accept", "gladly"}, {"progress", "early"}} {
		w.scholar.step(t, id, step.verb, map[string]any{"note": step.note})
		w.dies(t)
	}
	sees(t, w.bob, transfer, isType(macpmode.TypeAccept))
	w.says(t, macpmode.Mode, transfer, macpmode.TypeCommitment, commitment)
	w.says(t, macpmode.TaskMode, task, macpmode.TypeSessionStart, start)
	w.says(t, macpmode.TaskMode, task, macpmode.TypeTaskRequest, &taskv1.TaskRequestPayload{TaskId: "t1", Title: macpTitle, RequestedAssignee: "baton"})
	w.scholar.step(t, id, "progress", map[string]any{"note": "half"})
	w.dies(t)
	w.scholar.step(t, id, "complete", map[string]any{"note": "three found", "context": map[string]any{"sources": 3}})
	w.dies(t)
	var complete taskv1.TaskCompletePayload
	if err := proto.Unmarshal(sees(t, w.bob, task, isType(macpmode.TypeTaskComplete)).GetPayload(), &complete); err != nil || string(complete.GetOutput()) != `{"sources":3}` {
		t.Errorf("bob reads %v, %v", &complete, err)
	}
	commitment.Action = "task.completed"
	w.says(t, macpmode.TaskMode, task, macpmode.TypeCommitment, commitment)
	var kinds []string
	sees(t, w.bob, task, func(env *macpv1.Envelope) bool {
		kinds = append(kinds, env.GetMessageType())
		return env.GetMessageType() == macpmode.TypeCommitment
	})
	if got, want := strings.Join(kinds, " "), "SessionStart TaskRequest TaskAccept TaskUpdate TaskUpdate TaskComplete Commitment"; got != want {
		t.Errorf("the task has %s, want %s", got, want)
	}
}
