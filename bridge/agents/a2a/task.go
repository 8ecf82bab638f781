package a2a

import (
	"encoding/json"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/federation"
)

// The newest messages are kept: a log may have thousands of notes.
const maxHistory = 500

const resultName = "result"

// expired is the message of a task that ended by its deadline or by inactivity.
const expired = "expired"

type origin struct {
	contextID string        // of the client; "" for none
	message   *wire.Message // as sent; nil for an offer of another network
}

type scene struct{ publicURL string }

// task is [wire.Task] with a time that always includes milliseconds.
type task struct {
	*wire.Task

	Status status `json:"status"`

	steps []federation.EventID
}

// status is [wire.TaskStatus] with a time that always includes milliseconds.
type status struct {
	Message   *wire.Message  `json:"message,omitempty"`
	State     wire.TaskState `json:"state"`
	Timestamp stamp          `json:"timestamp"`
}

// spec: a2a-1.0 §5.6.1
type stamp time.Time

// MarshalJSON implements [json.Marshaler].
func (s stamp) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(s).UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// update is one event of a stream. Exactly one member is set.
//
// spec: a2a-1.0 §3.2.3
type update struct {
	Task     *task                         `json:"task,omitempty"`
	Status   *statusUpdate                 `json:"statusUpdate,omitempty"`
	Artifact *wire.TaskArtifactUpdateEvent `json:"artifactUpdate,omitempty"`
}

// statusUpdate is [wire.TaskStatusUpdateEvent] with the status of [task].
type statusUpdate struct {
	ContextID string      `json:"contextId"`
	TaskID    wire.TaskID `json:"taskId"`
	Status    status      `json:"status"`
}

// stateOf uses over for an unknown state.
func stateOf(s federation.State, over bool) wire.TaskState {
	switch s {
	case federation.Offered, federation.Open:
		return wire.TaskStateSubmitted
	case federation.Completed, bountyAccepted:
		return wire.TaskStateCompleted
	case federation.Declined:
		return wire.TaskStateRejected
	case federation.Cancelled:
		return wire.TaskStateCanceled
	case federation.Failed, federation.Expired, bountyForfeited:
		return wire.TaskStateFailed
	case federation.Assigned, federation.None:
	}
	if over {
		return wire.TaskStateFailed
	}
	return wire.TaskStateWorking
}

const (
	bountyAccepted  federation.State = "accepted"
	bountyForfeited federation.State = "forfeited"
	bountySubmit    federation.Verb  = "submit"
)

// fold holds the state of the task after the last step read. It is not safe for concurrent use.
type fold struct {
	scene scene
	view  federation.View
	info  wire.TaskInfo
	from  origin

	last     federation.Entry
	steps    []federation.EventID
	history  []*wire.Message
	message  *wire.Message  // of the status
	artifact *wire.Artifact // the latest
}

func (s scene) newFold(v federation.View, o origin) *fold {
	info := wire.TaskInfo{TaskID: wire.TaskID(v.ID.String()), ContextID: o.contextID}
	if info.ContextID == "" {
		info.ContextID = v.ID.String()
	}
	return &fold{scene: s, view: v, info: info, from: o}
}

func unshown(update) error { return nil }

func (f *fold) add(e federation.Entry) []update {
	f.last, f.steps = e, append(f.steps, e.Event.ID)
	if m := f.historyOf(e); m != nil {
		f.history = append(f.history, m)
	}
	if len(f.history) > maxHistory {
		f.history = f.history[1:]
	}
	if a := f.artifactOf(e.Event); a != nil {
		f.artifact = a
	}
	state := f.state()
	f.message = f.statusMessage(e.Event, state)
	var updates []update
	if f.artifact != nil && state == wire.TaskStateCompleted {
		updates = append(updates, update{Artifact: &wire.TaskArtifactUpdateEvent{
			TaskID: f.info.TaskID, ContextID: f.info.ContextID, Artifact: f.artifact, LastChunk: true,
		}})
	}
	return append(updates, update{Status: &statusUpdate{ContextID: f.info.ContextID, TaskID: f.info.TaskID, Status: f.status()}})
}

func (f *fold) state() wire.TaskState {
	return stateOf(f.last.State, f.last.Version == f.view.Version && f.view.Over)
}

func (f *fold) status() status {
	return status{Message: f.message, State: f.state(), Timestamp: stamp(f.last.Filed)}
}

func (f *fold) task() *task {
	shown := &task{Status: f.status(), steps: f.steps, Task: &wire.Task{
		ID: f.info.TaskID, ContextID: f.info.ContextID, History: f.history, Metadata: map[string]any{"handoff": f.metadata()},
	}}
	if f.artifact != nil && shown.Status.State == wire.TaskStateCompleted {
		shown.Artifacts = []*wire.Artifact{f.artifact}
	}
	return shown
}

func (f *fold) metadata() map[string]any {
	v := f.view
	m := map[string]any{
		"kind": v.Kind, "state": f.last.State, "home": v.Home, "version": f.last.Version, "offerer": v.Offerer,
		"provenance": f.last.Event.Provenance, "verdict": f.last.Event.FiledVerdict().String(),
		"passport": f.scene.publicURL + "/api/v1/handoffs/" + v.ID.String() + "/passport",
	}
	if v.Offeree != "" {
		m["offeree"] = v.Offeree
	}
	if v.Assignee != "" {
		m["assignee"] = v.Assignee
	}
	return m
}

// historyOf returns nil for a step shown only in the status.
func (f *fold) historyOf(e federation.Entry) *wire.Message {
	switch {
	case e.Version == 1:
		return f.opening(e.Event)
	case e.Event.Verb == federation.Progress && e.Event.Note != "":
		return f.textMessage(e.Event, e.Event.Note)
	}
	return nil
}

func (f *fold) opening(ev federation.Event) *wire.Message {
	if f.from.message != nil {
		m := *f.from.message
		m.TaskID, m.ContextID = f.info.TaskID, f.info.ContextID
		return &m
	}
	m := f.textMessage(ev, ev.Title)
	if part := contextPart(ev); part != nil {
		m.Parts = append(m.Parts, part)
	}
	return m
}

// textMessage treats the offerer as the user of the task.
func (f *fold) textMessage(ev federation.Event, words string) *wire.Message {
	role := wire.MessageRoleAgent
	if ev.Actor() == f.view.Offerer {
		role = wire.MessageRoleUser
	}
	return &wire.Message{
		ID: ev.ID.String(), Role: role, TaskID: f.info.TaskID, ContextID: f.info.ContextID, Parts: wire.ContentParts{wire.NewTextPart(words)},
	}
}

func (f *fold) statusMessage(ev federation.Event, state wire.TaskState) *wire.Message {
	switch {
	case ev.Verb == federation.Expire:
		return f.textMessage(ev, expired)
	case state == wire.TaskStateCompleted, state == wire.TaskStateSubmitted:
		return nil // the artifact has the note
	case ev.Note != "" && (state.Terminal() || ev.Verb == federation.Progress):
		return f.textMessage(ev, ev.Note)
	case state.Terminal():
		return nil
	}
	return f.message
}

func (f *fold) artifactOf(ev federation.Event) *wire.Artifact {
	if ev.Verb != federation.Complete && ev.Verb != bountySubmit {
		return nil
	}
	a := &wire.Artifact{ID: wire.ArtifactID(ev.ID.String()), Name: resultName}
	if ev.Note != "" {
		a.Parts = append(a.Parts, wire.NewTextPart(ev.Note))
	}
	if part := contextPart(ev); part != nil {
		a.Parts = append(a.Parts, part)
	}
	if len(a.Parts) == 0 {
		return nil
	}
	return a
}

func contextPart(ev federation.Event) *wire.Part {
	if ev.Context == "" {
		return nil
	}
	if federation.InlineContext(ev.Context) && json.Valid([]byte(ev.Context)) {
		return wire.NewDataPart(json.RawMessage(ev.Context))
	}
	return wire.NewFileURLPart(wire.URL(ev.Context), "")
}

// trim keeps the whole history if length is nil.
//
// spec: a2a-1.0 §3.2.4
func (t *task) trim(length *int) {
	if length == nil || len(t.History) <= *length {
		return
	}
	t.History = t.History[len(t.History)-max(*length, 0):]
	if len(t.History) == 0 {
		t.History = nil
	}
}
