package macpmode

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/macpmode/taskv1"
)

// TaskMode is the task mode. The gateway uses it only on runtimes of other operators, for the work
// of a handoff after the transfer.
//
// spec: RFC-MACP-0009
const TaskMode = "macp.mode.task.v1"

// Messages of the task mode. A Commitment ends it, too.
const (
	TypeTaskRequest  = "TaskRequest"
	TypeTaskAccept   = "TaskAccept"
	TypeTaskReject   = "TaskReject"
	TypeTaskUpdate   = "TaskUpdate"
	TypeTaskComplete = "TaskComplete"
	TypeTaskFail     = "TaskFail"
)

// Task is the task of a task-mode session.
type Task struct {
	ID       string
	Assignee string // "" for any participant
	Title    string
	Handoff  string // handoff ID; "" before it is known
}

// TaskKey is the common key of a handoff's offer and the task of its work on a runtime: the context
// of their sessions, or else the ID of the offer.
func TaskKey(contextID, offerOrTask string) string { return cmp.Or(contextID, offerOrTask) }

// OpenTask returns the payloads of the messages that open the task of a handoff: the start and the
// request. The context is the context_id of the offer's session; the input is the context of the
// offer.
func OpenTask(v federation.View, names Parties, context string, input []byte, c Carry, now time.Time) (*macpv1.SessionStartPayload, *taskv1.TaskRequestPayload, error) {
	carry, err := json.Marshal(c)
	if err != nil {
		return nil, nil, err
	}
	start := &macpv1.SessionStartPayload{
		Intent: v.Title, Participants: []string{names.Owner, names.Target}, ModeVersion: ModeVersion, ConfigurationVersion: ConfigurationVersion,
		TtlMs: ttl(v.Deadline, now), ContextId: context, Extensions: map[string][]byte{CarryExtension: carry},
	}
	request := &taskv1.TaskRequestPayload{TaskId: v.ID.String(), Title: v.Title, Instructions: v.Title, RequestedAssignee: names.Target, Input: input}
	if !v.Deadline.IsZero() {
		request.DeadlineUnixMs = v.Deadline.UnixMilli()
	}
	return start, request, nil
}

// Report is a step of the work, read from a task-mode message.
type Report struct {
	Task    string
	Verb    federation.Verb
	Note    string
	Context string // inline JSON, or ""
	Content []byte // any other output, to be stored and referenced
	Action  string // of the commitment that ends the session after the report, or ""
}

// ReadReport reads the step of a task-mode message.
func ReadReport(env *macpv1.Envelope) (Report, error) {
	switch env.GetMessageType() {
	case TypeTaskUpdate:
		var p taskv1.TaskUpdatePayload
		err := decode(env, &p)
		return Report{Task: p.GetTaskId(), Verb: federation.Progress, Note: cmp.Or(p.GetMessage(), p.GetStatus()), Context: contextOfUpdate(&p)}, err
	case TypeTaskComplete:
		var p taskv1.TaskCompletePayload
		err := decode(env, &p)
		r := Report{Task: p.GetTaskId(), Verb: federation.Complete, Note: p.GetSummary(), Action: "task.completed"}
		if r.Context = inline(p.GetOutput()); r.Context == "" {
			r.Content = p.GetOutput()
		}
		return r, err
	case TypeTaskFail:
		var p taskv1.TaskFailPayload
		err := decode(env, &p)
		members := map[string]any{"retryable": p.GetRetryable()}
		if p.GetErrorCode() != "" {
			members["error_code"] = p.GetErrorCode()
		}
		return Report{Task: p.GetTaskId(), Verb: federation.Fail, Note: p.GetReason(), Context: object(members), Action: "task.failed"}, err
	case TypeTaskReject: // the assignee accepted the handoff, but does not do the work
		var p taskv1.TaskRejectPayload
		err := decode(env, &p)
		return Report{Task: p.GetTaskId(), Verb: federation.Fail, Note: p.GetReason(), Context: `{"error_code":"rejected"}`, Action: "task.rejected"}, err
	}
	return Report{}, Refuse(InvalidEnvelope, "%s is not a report", env.GetMessageType())
}

// The content includes the status if the message is the note. Partial output other than JSON is in
// base64.
func contextOfUpdate(p *taskv1.TaskUpdatePayload) string {
	members := map[string]any{}
	if p.GetMessage() != "" && p.GetStatus() != "" {
		members["status"] = p.GetStatus()
	}
	if at := p.GetProgress(); at != 0 && !math.IsNaN(at) && !math.IsInf(at, 0) { // JSON has no other number
		members["progress"] = at
	}
	switch output := p.GetPartialOutput(); {
	case len(output) == 0:
	case len(members) == 0 && inline(output) != "":
		return inline(output)
	case json.Valid(output):
		members["result"] = json.RawMessage(output)
	default:
		members["result_b64"] = output
	}
	if len(members) == 0 {
		return ""
	}
	return object(members)
}

// inline returns "" for bytes that are not JSON.
func inline(content []byte) string {
	var text bytes.Buffer
	if json.Compact(&text, content) != nil || !federation.InlineContext(text.String()) {
		return ""
	}
	return text.String()
}

func object(members map[string]any) string {
	text, err := json.Marshal(members)
	if err != nil {
		return ""
	}
	return string(text)
}

// WriteReport returns the task-mode message for a step of the assignee, and the loss. It returns ""
// for a step of another kind.
func WriteReport(ev federation.Event, task, assignee string) (kind string, payload proto.Message, losses []federation.Loss) { //nolint:ireturn // each kind has a payload of its own
	switch ev.Verb { //nolint:exhaustive // the other steps are not about the work
	case federation.Progress:
		p := &taskv1.TaskUpdatePayload{TaskId: task, Status: "in_progress", Message: ev.Note, PartialOutput: output(ev)}
		p.Progress, _ = member[float64](ev.Context, "progress")
		if status, there := member[string](ev.Context, "status"); there {
			p.Status = status
		}
		return TypeTaskUpdate, p, nil
	case federation.Complete:
		return TypeTaskComplete, &taskv1.TaskCompletePayload{TaskId: task, Assignee: assignee, Output: output(ev), Summary: ev.Note}, nil
	case federation.Fail:
		p := &taskv1.TaskFailPayload{TaskId: task, Assignee: assignee, ErrorCode: "failed", Reason: ev.Note}
		p.Retryable, _ = member[bool](ev.Context, "retryable")
		if code, there := member[string](ev.Context, "error_code"); there {
			p.ErrorCode = code
		}
		if !saysAll(ev.Context, "retryable", "error_code") {
			losses = append(losses, federation.Loss{Field: "context", Fate: federation.Cut, Why: "a TaskFail has only a reason, error_code and retryable"})
		}
		return TypeTaskFail, p, losses
	}
	return "", nil, nil
}

// The output is the JSON itself, or a [Reference] to it.
func output(ev federation.Event) []byte {
	if ev.Context == "" || federation.InlineContext(ev.Context) {
		return []byte(ev.Context)
	}
	text, err := json.Marshal(Reference{URI: ev.Context, SHA256: ev.ContextHash})
	if err != nil {
		return nil
	}
	return text
}

func member[T any](context, name string) (value T, there bool) {
	text, there := membersOf(context)[name]
	return value, there && federation.DecodeJSON(text, &value) == nil
}

func saysAll(context string, names ...string) bool {
	members := membersOf(context)
	for _, name := range names {
		delete(members, name)
	}
	return context == "" || len(members) == 0 && strings.HasPrefix(context, "{")
}

// membersOf returns nil if the context is not a JSON object.
func membersOf(context string) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if federation.DecodeJSON([]byte(context), &members) != nil {
		return nil
	}
	return members
}

// TaskCommitment returns the commitment with which the gateway resolves a task that it requested.
func (s *Session) TaskCommitment(action, reason string) *macpv1.CommitmentPayload {
	id, scope := "", ""
	if s.Task != nil {
		id, scope = s.Task.ID, s.Task.Title
	}
	return s.commitment(id, scope, action, cmp.Or(reason, action), endsIn(action, "completed"))
}

// Authority defines which participants may commit a session.
type Authority string

// The authorities of RFC-MACP-0012 §4.5.
const (
	InitiatorOnly  Authority = "initiator_only"
	AnyParticipant Authority = "any_participant"
	DesignatedRole Authority = "designated_role"
)

// Policy is the governance of a session.
type Policy struct {
	ID             string
	ImplicitAccept int64 // milliseconds before the runtime accepts a pending offer; 0 for never
	Authority      Authority
	roles          []string
}

// The roles are names of participants.
func (p Policy) designates(sender string) bool { return slices.Contains(p.roles, sender) }

type rules struct {
	Acceptance struct {
		Timeout *int64 `json:"implicit_accept_timeout_ms"`
	} `json:"acceptance"`
	Commitment struct {
		Authority string   `json:"authority"`
		Roles     []string `json:"designated_roles"`
	} `json:"commitment"`
}

const (
	maxRulesBytes    = 16 << 10
	maxSchemaVersion = 3
)

func policyID() *regexp.Regexp { return regexp.MustCompile(`^policy(\.[A-Za-z0-9_-]+){1,8}$`) }

// BuiltIn returns the default policy, which every runtime has.
func BuiltIn() *macpv1.PolicyDescriptor {
	return &macpv1.PolicyDescriptor{PolicyId: DefaultPolicy, Mode: "*", Description: "the owner of a session commits it; no offer is accepted implicitly", Rules: "{}", SchemaVersion: 1}
}

// CheckPolicy judges a policy registered by a participant.
func CheckPolicy(d *macpv1.PolicyDescriptor) error {
	id := d.GetPolicyId()
	switch {
	case len(id) > maxNameBytes || !policyID().MatchString(id):
		return Refuse(InvalidPolicyDefinition, "policy_id: want policy.<namespace>.<name>")
	case id == DefaultPolicy || strings.HasPrefix(id, "policy.std."):
		return Refuse(InvalidPolicyDefinition, "%s is reserved", id)
	case len(d.GetDescription()) > maxRulesBytes:
		return Refuse(InvalidPolicyDefinition, "the description is too long")
	}
	_, err := ReadPolicy(d)
	return err
}

// ReadPolicy reads the rules of a policy for the handoff mode.
func ReadPolicy(d *macpv1.PolicyDescriptor) (Policy, error) {
	switch {
	case d.GetMode() != Mode && d.GetMode() != "*":
		return Policy{}, Refuse(InvalidPolicyDefinition, "the policy %s is for the mode %q", d.GetPolicyId(), d.GetMode())
	case d.GetSchemaVersion() < 1 || d.GetSchemaVersion() > maxSchemaVersion:
		return Policy{}, Refuse(InvalidPolicyDefinition, "schema_version: want 1 to %d", maxSchemaVersion)
	case len(d.GetRules()) > maxRulesBytes:
		return Policy{}, Refuse(InvalidPolicyDefinition, "rules: at most %d bytes", maxRulesBytes)
	case !strings.HasPrefix(strings.TrimSpace(d.GetRules()), "{"):
		return Policy{}, Refuse(InvalidPolicyDefinition, "rules: want a JSON object")
	}
	var r rules
	if err := federation.DecodeStrictJSON([]byte(d.GetRules()), &r); err != nil {
		return Policy{}, Refuse(InvalidPolicyDefinition, "rules: want acceptance and commitment of the handoff mode")
	}
	p := Policy{ID: d.GetPolicyId(), Authority: Authority(r.Commitment.Authority), roles: r.Commitment.Roles}
	if r.Acceptance.Timeout != nil {
		p.ImplicitAccept = *r.Acceptance.Timeout
	}
	if p.Authority == "" {
		p.Authority = InitiatorOnly
	}
	switch {
	case p.ImplicitAccept < 0:
		return Policy{}, Refuse(InvalidPolicyDefinition, "implicit_accept_timeout_ms is negative")
	case p.Authority == DesignatedRole && len(p.roles) == 0:
		return Policy{}, Refuse(InvalidPolicyDefinition, "designated_role needs designated_roles")
	case p.Authority != InitiatorOnly && p.Authority != AnyParticipant && p.Authority != DesignatedRole:
		return Policy{}, Refuse(InvalidPolicyDefinition, "authority: want initiator_only, any_participant or designated_role")
	}
	return p, nil
}
