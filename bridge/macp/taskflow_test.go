package macp_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/macpmode/taskv1"
)

// The work of a handoff goes on in a task, both ways. The runtime judges no message; that of the
// authors of the protocol plays the same in the long tests.
func TestTaskCarriesTheWork(t *testing.T) {
	t.Parallel()
	playTasks(t, fakeRuntime)
}

// playTasks plays all flows of tasks on a runtime.
func playTasks(t *testing.T, runtime runtimeOf) {
	t.Helper()
	for name, play := range map[string]func(*testing.T, runtimeOf){
		"a foreign assignee": foreignAssigneeReports, "ends": taskEnds, "our assignee": ourAssigneeReports, "without a handoff": strayTask, "refused": refusedTask,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, runtime)
		})
	}
}

// runtimeOf runs a runtime with the task mode and returns its address. Its participants are bob, and
// baton, which may use only the given modes; none for all.
type runtimeOf func(t *testing.T, modes ...string) string

// taskWorld is a guest with the profile task-follow-on, and bob.
type taskWorld struct {
	*guest

	bob     *bridgetest.MACPClient
	between func() // any two messages
}

func newTaskWorld(t *testing.T, runtime runtimeOf, restarts bool, modes ...string) *taskWorld {
	t.Helper()
	w := newTaskWorldAt(t, runtime(t, modes...), "task-follow-on")
	if restarts {
		w.between = func() {
			w.stop()
			w.start(t)
		}
	}
	return w
}

// newTaskWorldAt returns a guest of the runtime at an address, and bob.
func newTaskWorldAt(t *testing.T, address, profile string) *taskWorld {
	t.Helper()
	w := &taskWorld{guest: newGuestWith(t, address, token("baton"), profile), bob: bridgetest.NewMACPClient(address, "bob", token("bob"))}
	t.Cleanup(w.bob.Close)
	w.between = func() {}
	return w
}

// accepts has bob accept the offer of a session.
func (w *taskWorld) accepts(t *testing.T, session string, id federation.HandoffID) {
	t.Helper()
	ack, err := w.bob.Send(t.Context(), session, macpmode.TypeAccept, "a1", &handoffv1.HandoffAcceptPayload{HandoffId: id.String(), AcceptedBy: "bob"})
	if err != nil || !ack.GetOk() {
		t.Fatalf("the accept is answered %v, %v", ack, err)
	}
}

// says sends a message of bob in a session of the task mode, which the runtime is to accept.
func (w *taskWorld) says(t *testing.T, session, kind, id string, payload proto.Message) {
	t.Helper()
	env, err := w.bob.Envelope(session, kind, id, payload)
	if err != nil {
		t.Fatal(err)
	}
	env.Mode = macpmode.TaskMode
	if ack, err := w.bob.SendEnvelope(t.Context(), env); err != nil || !ack.GetOk() {
		t.Fatalf("%s is answered %v, %v", kind, ack, err)
	}
	w.between()
}

// opened waits for a session of a mode that the guest opens, after a step.
func (w *taskWorld) opened(t *testing.T, mode string, step func()) *macpv1.SessionMetadata {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found := make(chan *macpv1.SessionMetadata, 1)
	watching := make(chan struct{})
	go func() {
		defer close(found)
		_ = bridgetest.MACPWatch[macpv1.WatchSessionsRequest](ctx, w.bob, "WatchSessions", func() { close(watching) }, func(m *macpv1.WatchSessionsResponse) bool {
			s := m.GetEvent().GetSession()
			if s.GetInitiator() != "baton" || s.GetMode() != mode {
				return true
			}
			found <- s
			return false
		})
	}()
	<-watching
	step()
	s := <-found
	if s == nil {
		t.Fatalf("no session of %s is opened", mode)
	}
	return s
}

func offerToBob(id federation.EventID) federation.Event {
	return federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: guestDID, To: bobDID, Title: "Review it", Context: `{"draft":7}`,
		Venue: federation.PrivateVenue(guestDID, bobDID), Dialect: federation.HandoffTags,
	}
}

// handedOver has the guest offer work to bob, which accepts it. It returns the handoff and the
// session of its task.
func (w *taskWorld) handedOver(t *testing.T) (federation.HandoffID, string) {
	t.Helper()
	id := federation.EventID{1, 2, 3}
	offered := w.opened(t, macpmode.Mode, func() {
		w.take(t, offerToBob(id))
	})
	awaits(t, w.bob, offered.GetSessionId(), macpmode.TypeContext)
	task := w.opened(t, macpmode.TaskMode, func() {
		w.accepts(t, offered.GetSessionId(), id)
		w.between()
	})
	if task.GetContextId() == "" || task.GetContextId() != offered.GetContextId() || !slices.Equal(task.GetParticipants(), []string{"baton", "bob"}) {
		t.Errorf("after %v the task is in %v", offered, task)
	}
	var p taskv1.TaskRequestPayload
	if err := proto.Unmarshal(awaits(t, w.bob, task.GetSessionId(), macpmode.TypeTaskRequest).GetPayload(), &p); err != nil {
		t.Fatal(err)
	}
	if p.GetTaskId() != id.String() || p.GetTitle() != "Review it" || p.GetRequestedAssignee() != "bob" || string(p.GetInput()) != `{"draft":7}` {
		t.Errorf("bob is asked for %v", &p)
	}
	w.between()
	return id, task.GetSessionId()
}

func (w *taskWorld) commitment(t *testing.T, session string) string {
	t.Helper()
	var p macpv1.CommitmentPayload
	env := awaits(t, w.bob, session, macpmode.TypeCommitment)
	if err := proto.Unmarshal(env.GetPayload(), &p); err != nil || env.GetSender() != "baton" {
		t.Errorf("the task is committed by %v, %v", env, err)
	}
	return p.GetAction()
}

// last returns the newest step of a handoff once it has so many.
func (w *taskWorld) last(t *testing.T, id federation.HandoffID, steps int) federation.Event {
	t.Helper()
	await(t, "the steps to be filed", func() bool { return len(w.steps(id)) >= steps })
	filed := w.gateway.filed()
	if got := w.steps(id); len(got) != steps {
		t.Errorf("filed: %v", got)
	}
	return filed[len(filed)-1]
}

// foreignAssigneeReports checks that bob's reports about a task of the guest reach the offerer,
// however often the gateway starts again in between.
func foreignAssigneeReports(t *testing.T, runtime runtimeOf) {
	t.Helper()
	for name, restarts := range map[string]bool{"at once": false, "with restarts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, runtime, restarts)
			id, session := w.handedOver(t)
			w.says(t, session, macpmode.TypeTaskAccept, "t1", &taskv1.TaskAcceptPayload{TaskId: id.String(), Assignee: "bob"})
			w.says(t, session, macpmode.TypeTaskUpdate, "t2", &taskv1.TaskUpdatePayload{TaskId: id.String(), Status: "reading", Progress: 0.5, Message: "half", PartialOutput: []byte("raw")})
			if ev := w.last(t, id, 3); ev.Verb != federation.Progress || ev.Actor() != bobDID || ev.Note != "half" || ev.Context != `{"progress":0.5,"result_b64":"cmF3","status":"reading"}` ||
				ev.Provenance != federation.Vouched || ev.Evidence == nil {
				t.Errorf("filed: %+v", ev)
			}
			w.says(t, session, macpmode.TypeTaskComplete, "t3", &taskv1.TaskCompletePayload{TaskId: id.String(), Assignee: "bob", Summary: "three found", Output: []byte(`{"sources": 3}`)})
			if ev := w.last(t, id, 4); ev.Verb != federation.Complete || ev.Note != "three found" || ev.Context != `{"sources":3}` {
				t.Errorf("filed: %+v", ev)
			}
			if action := w.commitment(t, session); action != "task.completed" {
				t.Errorf("the task is committed as %s", action)
			}
			w.between()
			w.last(t, id, 4)
		})
	}
}

// taskEnds plays a task that fails, one that bob rejects, and one whose work bob ends by a signal.
func taskEnds(t *testing.T, runtime runtimeOf) {
	t.Helper()
	t.Run("fail", func(t *testing.T) {
		t.Parallel()
		w := newTaskWorld(t, runtime, false)
		id, session := w.handedOver(t)
		w.says(t, session, macpmode.TypeTaskAccept, "t1", &taskv1.TaskAcceptPayload{TaskId: id.String()})
		w.says(t, session, macpmode.TypeTaskFail, "t2", &taskv1.TaskFailPayload{TaskId: id.String(), ErrorCode: "E7", Reason: "no library", Retryable: true})
		if ev := w.last(t, id, 3); ev.Verb != federation.Fail || ev.Note != "no library" || ev.Context != `{"error_code":"E7","retryable":true}` {
			t.Errorf("filed: %+v", ev)
		}
		if action := w.commitment(t, session); action != "task.failed" {
			t.Errorf("the task is committed as %s", action)
		}
	})
	t.Run("reject", func(t *testing.T) {
		t.Parallel()
		w := newTaskWorld(t, runtime, false)
		id, session := w.handedOver(t)
		w.says(t, session, macpmode.TypeTaskReject, "t1", &taskv1.TaskRejectPayload{TaskId: id.String(), Reason: "not now"})
		if ev := w.last(t, id, 3); ev.Verb != federation.Fail || ev.Note != "not now" {
			t.Errorf("filed: %+v", ev)
		}
		if action := w.commitment(t, session); action != "task.rejected" {
			t.Errorf("the task is committed as %s", action)
		}
	})
	t.Run("signal", func(t *testing.T) {
		t.Parallel()
		w := newTaskWorld(t, runtime, false)
		id, session := w.handedOver(t)
		w.signals(t, w.opened(t, macpmode.Mode, func() {}).GetSessionId(), "complete")
		if ev := w.last(t, id, 3); ev.Verb != federation.Complete {
			t.Errorf("filed: %+v", ev)
		}
		await(t, "the task to be cancelled", func() bool { return w.state(t, session) == macpv1.SessionState_SESSION_STATE_CANCELLED })
	})
	t.Run("expire", func(t *testing.T) {
		t.Parallel()
		w := newTaskWorld(t, runtime, false)
		id, session := w.handedOver(t)
		w.take(t, federation.Event{ID: federation.EventID{7}, Handoff: id, Kind: federation.Handoff, Verb: federation.Expire, From: "did:web:gw.example"})
		if state := w.state(t, session); state != macpv1.SessionState_SESSION_STATE_CANCELLED {
			t.Errorf("the task is %s", state)
		}
	})
}

// signals has bob ask for a step by a signal.
func (w *taskWorld) signals(t *testing.T, session, verb string) {
	t.Helper()
	ack, err := w.bob.Send(t.Context(), "", macpmode.TypeSignal, verb, &macpv1.SignalPayload{
		SignalType: macpmode.SignalStep, Data: []byte(`{"verb":"` + verb + `"}`), Confidence: 1, CorrelationSessionId: session,
	})
	if err != nil || !ack.GetOk() {
		t.Fatalf("the signal is answered %v, %v", ack, err)
	}
}

func (w *taskWorld) state(t *testing.T, session string) macpv1.SessionState {
	t.Helper()
	answer, err := bridgetest.MACPCall[macpv1.GetSessionRequest, macpv1.GetSessionResponse](t.Context(), w.bob, "GetSession", &macpv1.GetSessionRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetMetadata().GetState()
}

// asks has bob commit the transfer, and ask the guest for the task.
func (w *taskWorld) asks(t *testing.T, transfer, task, contextID, id string) {
	t.Helper()
	ack, err := w.bob.Send(t.Context(), transfer, macpmode.TypeCommitment, "c1", &macpv1.CommitmentPayload{
		CommitmentId: "c1", Action: "handoff.accepted", AuthorityScope: "research", Reason: "done", ModeVersion: macpmode.ModeVersion, ConfigurationVersion: "test",
		PolicyVersion: macpmode.DefaultPolicy, OutcomePositive: true,
	})
	if err != nil || !ack.GetOk() {
		t.Fatalf("the commitment is answered %v, %v", ack, err)
	}
	w.between()
	w.says(t, task, macpmode.TypeSessionStart, "start", &macpv1.SessionStartPayload{
		Intent: "Cite three sources", Participants: []string{"bob", "baton"}, ModeVersion: macpmode.ModeVersion, ConfigurationVersion: "test", TtlMs: 600_000, ContextId: contextID,
	})
	w.says(t, task, macpmode.TypeTaskRequest, "request", &taskv1.TaskRequestPayload{TaskId: id, Title: "Cite three sources", RequestedAssignee: "baton"})
}

// ourAssigneeReports checks that the steps of the gateway's participant for bob are said in the
// task that bob asks for, including those from before the request.
func ourAssigneeReports(t *testing.T, runtime runtimeOf) {
	t.Helper()
	for name, restarts := range map[string]bool{"at once": false, "with restarts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTaskWorld(t, runtime, restarts)
			transfer, task := bobOffers(t, w.bob, 1), session(9)
			offer := w.offered(t, 1)[0]
			w.take(t, answer(offer.Handoff, federation.Accept, "gladly"))
			awaits(t, w.bob, transfer, macpmode.TypeAccept)
			w.take(t, answer(offer.Handoff, federation.Progress, "early"))
			w.between()
			w.asks(t, transfer, task, "", "h1") // bob's sessions have no context: the task has the ID of the offer
			awaits(t, w.bob, task, macpmode.TypeTaskUpdate)
			later := answer(offer.Handoff, federation.Progress, "half")
			later.Context = `{"progress":0.5}`
			w.take(t, later)
			w.between()
			end := answer(offer.Handoff, federation.Complete, "three found")
			end.Context = `{"sources":3}`
			w.take(t, end)
			var complete taskv1.TaskCompletePayload
			if err := proto.Unmarshal(awaits(t, w.bob, task, macpmode.TypeTaskComplete).GetPayload(), &complete); err != nil ||
				string(complete.GetOutput()) != `{"sources":3}` || complete.GetSummary() != "three found" || complete.GetAssignee() != "baton" {
				t.Errorf("bob reads %v, %v", &complete, err)
			}
			w.says(t, task, macpmode.TypeCommitment, "c2", &macpv1.CommitmentPayload{
				CommitmentId: "c2", Action: "task.completed", AuthorityScope: "research", Reason: "done", ModeVersion: macpmode.ModeVersion, ConfigurationVersion: "test",
				PolicyVersion: macpmode.DefaultPolicy, OutcomePositive: true,
			})
			want := "SessionStart TaskRequest TaskAccept TaskUpdate:early TaskUpdate:half TaskComplete Commitment"
			if got := w.history(t, task); got != want {
				t.Errorf("the task has %s, want %s", got, want)
			}
		})
	}
}

func (w *taskWorld) history(t *testing.T, session string) string {
	t.Helper()
	var all []string
	_ = w.bob.Follow(t.Context(), session, 0, func(env *macpv1.Envelope) bool {
		name := env.GetMessageType()
		if name == macpmode.TypeTaskUpdate {
			var p taskv1.TaskUpdatePayload
			if err := proto.Unmarshal(env.GetPayload(), &p); err != nil {
				t.Error(err)
			}
			name += ":" + p.GetMessage()
		}
		all = append(all, name)
		return name != macpmode.TypeCommitment
	})
	return strings.Join(all, " ")
}

// strayTask checks that a task that follows no accepted handoff is rejected, with the reason.
func strayTask(t *testing.T, runtime runtimeOf) {
	t.Helper()
	w := newTaskWorld(t, runtime, false)
	w.says(t, session(9), macpmode.TypeSessionStart, "start", &macpv1.SessionStartPayload{
		Intent: "Anything", Participants: []string{"bob", "baton"}, ModeVersion: macpmode.ModeVersion, ConfigurationVersion: "test", TtlMs: 600_000,
	})
	w.says(t, session(9), macpmode.TypeTaskRequest, "request", &taskv1.TaskRequestPayload{TaskId: "t1", Title: "Anything", RequestedAssignee: "baton"})
	var p taskv1.TaskRejectPayload
	if err := proto.Unmarshal(awaits(t, w.bob, session(9), macpmode.TypeTaskReject).GetPayload(), &p); err != nil || !strings.Contains(p.GetReason(), "follows an accepted handoff") {
		t.Errorf("bob reads %v, %v", &p, err)
	}
}

// refusedTask checks that a runtime that does not let the participant use the task mode is told of
// the work by signals.
func refusedTask(t *testing.T, runtime runtimeOf) {
	t.Helper()
	w := newTaskWorld(t, runtime, false, macpmode.Mode)
	id := federation.EventID{1, 2, 3}
	offered := w.opened(t, macpmode.Mode, func() { w.take(t, offerToBob(id)) })
	w.accepts(t, offered.GetSessionId(), id)
	awaits(t, w.bob, offered.GetSessionId(), macpmode.TypeCommitment)
	w.signals(t, offered.GetSessionId(), "complete")
	if ev := w.last(t, id, 3); ev.Verb != federation.Complete {
		t.Errorf("filed: %+v", ev)
	}
}
