package macpmode_test

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/macpmode/taskv1"
	"github.com/baton-gateway/baton/translate/translatetest"
)

func report(tb testing.TB, kind string, payload proto.Message) *macpv1.Envelope {
	tb.Helper()
	text, err := proto.Marshal(payload)
	if err != nil {
		tb.Fatal(err)
	}
	return &macpv1.Envelope{MacpVersion: macpmode.Version, Mode: macpmode.TaskMode, MessageType: kind, MessageId: "m", SessionId: "s", Sender: "bob", Payload: text}
}

func reportPayloads() map[string]proto.Message {
	return map[string]proto.Message{
		macpmode.TypeTaskUpdate: &taskv1.TaskUpdatePayload{}, macpmode.TypeTaskComplete: &taskv1.TaskCompletePayload{},
		macpmode.TypeTaskFail: &taskv1.TaskFailPayload{}, macpmode.TypeTaskReject: &taskv1.TaskRejectPayload{},
	}
}

// Each member of a report that the table does not call lost is in the step.
func TestTaskReportIsWholeInItsStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.StringMatching(`[a-z]{0,12}`)
		outputs := rapid.SampledFrom([]string{"", `{"k": [1]}`, `[1]`, `"text"`, "\x00raw", "7"})
		update := &taskv1.TaskUpdatePayload{
			TaskId: "t", Status: word.Draw(rt, "status"), Message: word.Draw(rt, "message"), Progress: rapid.Float64().Draw(rt, "progress"), PartialOutput: []byte(outputs.Draw(rt, "partial")),
		}
		r, err := macpmode.ReadReport(report(t, macpmode.TypeTaskUpdate, update))
		if err != nil || r.Verb != federation.Progress || r.Task != "t" || r.Action != "" {
			rt.Fatalf("%v is read as %+v, %v", update, r, err)
		}
		step := r.Note + " " + r.Context
		has := func(text string) bool { return strings.Contains(step, text) }
		output := string(update.GetPartialOutput())
		if !has(update.GetStatus()) || !has(update.GetMessage()) || !has(compact(output)) && !has(base64.StdEncoding.EncodeToString(update.GetPartialOutput())) {
			rt.Fatalf("%v is read as %+v", update, r)
		}
		var members struct{ Progress float64 }
		if update.GetProgress() != 0 && (json.Unmarshal([]byte(r.Context), &members) != nil || members.Progress != update.GetProgress()) {
			rt.Fatalf("%v is read as %+v", update, r)
		}
		complete := &taskv1.TaskCompletePayload{TaskId: "t", Summary: word.Draw(rt, "summary"), Output: []byte(outputs.Draw(rt, "output"))}
		r, err = macpmode.ReadReport(report(t, macpmode.TypeTaskComplete, complete))
		if err != nil || r.Verb != federation.Complete || r.Note != complete.GetSummary() || r.Action != "task.completed" ||
			r.Context != compact(string(complete.GetOutput())) && string(r.Content) != string(complete.GetOutput()) {
			rt.Fatalf("%v is read as %+v, %v", complete, r, err)
		}
		fail := &taskv1.TaskFailPayload{TaskId: "t", Reason: word.Draw(rt, "reason"), ErrorCode: word.Draw(rt, "code"), Retryable: rapid.Bool().Draw(rt, "retryable")}
		r, err = macpmode.ReadReport(report(t, macpmode.TypeTaskFail, fail))
		if err != nil || r.Verb != federation.Fail || r.Note != fail.GetReason() || !strings.Contains(r.Context, `"retryable":`+strconv.FormatBool(fail.GetRetryable())) ||
			!strings.Contains(r.Context, fail.GetErrorCode()) || r.Action != "task.failed" {
			rt.Fatalf("%v is read as %+v, %v", fail, r, err)
		}
	})
}

// compact returns JSON without space, and any other text unchanged.
func compact(text string) string { return strings.ReplaceAll(text, " ", "") }

// Each member of a step that the table does not call lost is in the message, and every loss is
// reported.
func TestTaskStepIsWholeInItsReport(t *testing.T) {
	t.Parallel()
	read := func(payload proto.Message) string {
		text, err := macpmode.JSON(payload)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	in64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, tt := range []struct {
		verb          federation.Verb
		context, hash string
		want          []string
		lost          bool
	}{
		{verb: federation.Progress, want: []string{`"message":"the note"`, `"status":"in_progress"`}},
		{verb: federation.Progress, context: `{"progress":0.5,"status":"reading","x":1}`, want: []string{`"progress":0.5`, `"status":"reading"`, in64(`{"progress":0.5,"status":"reading","x":1}`)}},
		{verb: federation.Complete, context: `{"sources":3}`, want: []string{`"summary":"the note"`, in64(`{"sources":3}`), `"assignee":"baton"`}},
		{verb: federation.Complete, context: "https://gw.example/blob/1", hash: "sha256:00", want: []string{in64(`{"uri":"https://gw.example/blob/1","sha256":"sha256:00"}`)}},
		{verb: federation.Fail, want: []string{`"reason":"the note"`, `"error_code":"failed"`, `"retryable":false`}},
		{verb: federation.Fail, context: `{"retryable":true,"error_code":"E7"}`, want: []string{`"error_code":"E7"`, `"retryable":true`}},
		{verb: federation.Fail, context: `{"retryable":true,"log":"x"}`, want: []string{`"retryable":true`}, lost: true},
		{verb: federation.Fail, context: `[1]`, want: []string{`"reason":"the note"`}, lost: true},
		{verb: federation.Fail, context: "https://gw.example/blob/1", want: []string{`"reason":"the note"`}, lost: true},
	} {
		_, payload, losses := macpmode.WriteReport(federation.Event{Verb: tt.verb, Note: "the note", Context: tt.context, ContextHash: tt.hash}, "t1", "baton")
		text := read(payload)
		for _, want := range append(tt.want, `"task_id":"t1"`) {
			if !strings.Contains(text, want) {
				t.Errorf("%s with %s is %s, which has no %s", tt.verb, tt.context, text, want)
			}
		}
		if federation.Loses(losses, "context") != tt.lost {
			t.Errorf("%s with %s loses %v", tt.verb, tt.context, losses)
		}
	}
	if kind, _, _ := macpmode.WriteReport(federation.Event{Verb: federation.Cancel}, "t1", "baton"); kind != "" {
		t.Errorf("a cancel is %s", kind)
	}
}

// The fidelity table of the task mode names each member of each report, and no other.
func TestTaskTableNamesEachMember(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, row := range translatetest.MACPTaskFidelity() {
		if row.Way == translatetest.In {
			named[row.Field] = true
		}
	}
	for kind, payload := range reportPayloads() {
		fields := payload.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			name := string(fields.Get(i).Name())
			if name == "task_id" || name == "assignee" {
				continue
			}
			row := strings.ToLower(strings.TrimPrefix(kind, "Task")) + " " + name
			if !named[row] {
				t.Errorf("the table does not name %s", row)
			}
			delete(named, row)
		}
	}
	if delete(named, "assignee"); len(named) > 0 {
		t.Errorf("the table names %v", named)
	}
}

// The task of a handoff has the context of its offer, and lasts no longer than the deadline.
func TestTaskRequestHasTheContextOfTheOffer(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(begun)
	v := federation.View{ID: federation.EventID{7}, Title: "the title", Deadline: now.Add(time.Hour)}
	start, request, err := macpmode.OpenTask(v, macpmode.Parties{Owner: "baton", Target: "bob"}, "ctx:1", []byte("input"), macpmode.CarryOf(v, "task-follow-on", "https://gw.example/h"), now)
	if err != nil {
		t.Fatal(err)
	}
	if start.GetContextId() != "ctx:1" || start.GetTtlMs() != time.Hour.Milliseconds() || !strings.Contains(string(start.GetExtensions()[macpmode.CarryExtension]), "https://gw.example/h") {
		t.Errorf("the session starts with %v", start)
	}
	if request.GetTaskId() != v.ID.String() || request.GetRequestedAssignee() != "bob" || string(request.GetInput()) != "input" || request.GetDeadlineUnixMs() != v.Deadline.UnixMilli() {
		t.Errorf("the request is %v", request)
	}
}

// FuzzReport reads reports of tasks. The context of a step is empty or one that a step can have.
func FuzzReport(f *testing.F) {
	kinds := []string{macpmode.TypeTaskUpdate, macpmode.TypeTaskComplete, macpmode.TypeTaskFail, macpmode.TypeTaskReject}
	for i, payload := range []proto.Message{
		&taskv1.TaskUpdatePayload{TaskId: "t", Status: "s", Progress: math.NaN(), Message: "m", PartialOutput: []byte("raw")}, &taskv1.TaskCompletePayload{TaskId: "t", Output: []byte(`{"a":1}`)},
		&taskv1.TaskFailPayload{TaskId: "t", ErrorCode: "\xff", Retryable: true}, &taskv1.TaskRejectPayload{TaskId: "t"},
	} {
		text, _ := proto.MarshalOptions{}.Marshal(payload) // invalid UTF-8 has no bytes, which is a seed too
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, kind uint8, payload []byte) {
		r, err := macpmode.ReadReport(&macpv1.Envelope{MessageType: kinds[int(kind)%len(kinds)], Payload: payload})
		if err != nil {
			if code(err) != string(macpmode.InvalidEnvelope) {
				t.Errorf("%q: %v", payload, err)
			}
			return
		}
		if text := r.Context; text != "" && (!federation.InlineContext(text) || !json.Valid([]byte(text))) {
			t.Errorf("%q has the context %s", payload, text)
		}
	})
}
