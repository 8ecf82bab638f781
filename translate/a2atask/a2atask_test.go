package a2atask_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1/pbconv"
	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/a2atask"
)

// said is a reading in short form: each step as its verb, note and context.
type said struct {
	Steps    []string
	Question string
	Blocked  string
}

func short(r a2atask.Reading) said {
	s := said{Blocked: r.Blocked}
	for _, step := range r.Steps {
		s.Steps = append(s.Steps, strings.TrimRight(strings.Join([]string{string(step.Verb), step.Note, step.Context}, "|"), "|"))
	}
	if r.Question != nil {
		s.Question = r.Question.Text
	}
	return s
}

func TestReadReturnsTheStepsOfATask(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 100)
	longText, err := json.Marshal(strings.TrimSpace(long))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, task string
		state      federation.State
		want       said
	}{
		{"submitted", `{"status":{"state":"TASK_STATE_SUBMITTED"}}`, federation.Offered, said{}},
		{"working", `{"status":{"state":"TASK_STATE_WORKING"}}`, federation.Offered, said{Steps: []string{"accept"}}},
		{"working on an open offer", `{"status":{"state":"TASK_STATE_WORKING"}}`, federation.Open, said{Steps: []string{"claim"}}},
		{"a result of an open offer", `{"status":{"state":"TASK_STATE_COMPLETED"}}`, federation.Open, said{Steps: []string{"claim", "complete"}}},
		{"failed on an open offer", `{"status":{"state":"TASK_STATE_FAILED"}}`, federation.Open, said{}},
		{"canceled on an open offer", `{"status":{"state":"TASK_STATE_CANCELED"}}`, federation.Open, said{}},
		{"rejected on an open offer", `{"status":{"state":"TASK_STATE_REJECTED"}}`, federation.Open, said{}},
		{
			"an open offer without authorization", `{"status":{"state":"TASK_STATE_AUTH_REQUIRED"}}`,
			federation.Open,
			said{Blocked: "the agent needs an authorization"},
		},
		{"working with a note", `{"status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"half\ndone"}]}}}`, federation.Assigned, said{Steps: []string{"progress|half done"}}},
		{
			"completed with a message", `{"status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"done"}]}}}`,
			federation.Offered,
			said{Steps: []string{"accept", "complete|done"}},
		},
		{
			"completed with text", `{"status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"42"}]}]}`,
			federation.Assigned,
			said{Steps: []string{"complete|42"}},
		},
		{
			"completed with long text", `{"status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":` + string(longText) + `}]}]}`,
			federation.Assigned,
			said{Steps: []string{"complete|" + string([]rune(long)[:400]) + `|{"artifacts":[{"artifactId":"a","parts":[{"text":` + string(longText) + `}]}]}`}},
		},
		{
			"completed with data", `{"status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"done"}]}},"artifacts":[{"artifactId":"a","parts":[{"data":{"n":1}}]}]}`,
			federation.Assigned,
			said{Steps: []string{`complete|done|{"n":1}`}},
		},
		{
			"completed with a link", `{"status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"url":"https://x.example/r.pdf"}]}]}`,
			federation.Assigned,
			said{Steps: []string{"complete||https://x.example/r.pdf"}},
		},
		{
			"completed with two parts", `{"status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"see"},{"data":[1]}]}]}`,
			federation.Assigned,
			said{Steps: []string{`complete|see|{"artifacts":[{"artifactId":"a","parts":[{"text":"see"},{"data":[1]}]}]}`}},
		},
		{
			"completed with parts that are null", `{"status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m","role":"ROLE_AGENT","parts":[null]}},"artifacts":[null,{"artifactId":"a","parts":[null]}]}`,
			federation.Assigned,
			said{Steps: []string{"complete"}},
		},
		{
			"failed", `{"status":{"state":"TASK_STATE_FAILED","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"no"}]}}}`,
			federation.Offered,
			said{Steps: []string{"accept", "fail|no"}},
		},
		{"canceled", `{"status":{"state":"TASK_STATE_CANCELED"}}`, federation.Assigned, said{Steps: []string{"fail|canceled"}}},
		{"rejected", `{"status":{"state":"TASK_STATE_REJECTED"}}`, federation.Offered, said{Steps: []string{"decline"}}},
		{"rejected after the accept", `{"status":{"state":"TASK_STATE_REJECTED"}}`, federation.Assigned, said{Steps: []string{"fail"}}},
		{
			"input required", `{"status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"Which?"},{"text":"Now?"}]}}}`,
			federation.Offered,
			said{Steps: []string{"accept"}, Question: "Which?\nNow?"},
		},
		{
			"input required without text", `{"status":{"state":"TASK_STATE_INPUT_REQUIRED"}}`,
			federation.Assigned,
			said{Question: "The agent needs more input, and did not say which."},
		},
		{
			"auth required", `{"status":{"state":"TASK_STATE_AUTH_REQUIRED"}}`,
			federation.Assigned,
			said{Steps: []string{"progress|the agent needs an authorization"}, Blocked: "the agent needs an authorization"},
		},
		{"a state of a later version", `{"status":{"state":"TASK_STATE_PAUSED"}}`, federation.Assigned, said{}},
		{"working after the end", `{"status":{"state":"TASK_STATE_WORKING"}}`, federation.Completed, said{}},
		{"completed after a cancel", `{"status":{"state":"TASK_STATE_COMPLETED"}}`, federation.Cancelled, said{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var task wire.Task
			if err := json.Unmarshal([]byte(c.task), &task); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, short(a2atask.Read(&task, c.state))); d != "" {
				t.Errorf("the reading (-want +got):\n%s", d)
			}
		})
	}
}

func TestReadRecognizesARepeatedReport(t *testing.T) {
	t.Parallel()
	task := func(id, text string) *wire.Task {
		return &wire.Task{Status: wire.TaskStatus{State: wire.TaskStateWorking, Message: &wire.Message{ID: id, Parts: wire.ContentParts{wire.NewTextPart(text)}}}}
	}
	first, again, next := a2atask.Read(task("m1", "half"), federation.Assigned), a2atask.Read(task("m1", "half"), federation.Assigned), a2atask.Read(task("m2", "half"), federation.Assigned)
	if first.Steps[0].Key != again.Steps[0].Key || first.Steps[0].Key == next.Steps[0].Key {
		t.Errorf("the keys are %q, %q and %q", first.Steps[0].Key, again.Steps[0].Key, next.Steps[0].Key)
	}
}

func TestOfferWritesTheMessageOfAnOffer(t *testing.T) {
	t.Parallel()
	id, err := federation.ParseEventID("01K9ZQ0000000000000000000H")
	if err != nil {
		t.Fatal(err)
	}
	view := federation.View{ID: id, Kind: federation.Handoff, Offerer: "did:web:a.example", Caps: []string{"cite"}, Deadline: time.Unix(1_800_000_000, 0)}
	for context, want := range map[string]string{
		"":                      ``,
		`{"n":1.0}`:             `,{"data":{"n":1.0},"mediaType":"application/json"}`,
		"https://x.example/ctx": `,{"url":"https://x.example/ctx"}`,
	} {
		m, losses := a2atask.Offer(federation.Event{ID: id, Handoff: id, Title: "Cite <three>", Context: context}, view, "https://gw.example/p")
		got, err := json.Marshal(m)
		if err != nil || len(losses) > 0 {
			t.Fatal(err, losses)
		}
		text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(got))
		full := `{"messageId":"01K9ZQ0000000000000000000H","contextId":"01K9ZQ0000000000000000000H","metadata":{"handoff":{"caps":["cite"],"deadline":"2027-01-15T08:00:00Z",` +
			`"id":"01K9ZQ0000000000000000000H","kind":"handoff","offerer":"did:web:a.example","passport":"https://gw.example/p"}},` +
			`"parts":[{"text":"Cite <three>","mediaType":"text/plain"}` + want + `],"role":"ROLE_USER"}`
		if d := cmp.Diff(full, text); d != "" {
			t.Errorf("the message with the context %q (-want +got):\n%s", context, d)
		}
	}
	if _, losses := a2atask.Offer(federation.Event{ID: id, Handoff: id, Title: "x", Context: "{broken"}, view, ""); len(losses) != 1 || losses[0].Field != "context" {
		t.Errorf("a broken context is lost as %v", losses)
	}
}

func TestForProtoKeepsEachContextExactly(t *testing.T) {
	t.Parallel()
	id, err := federation.ParseEventID("01K9ZQ0000000000000000000H")
	if err != nil {
		t.Fatal(err)
	}
	for context, isData := range map[string]bool{
		`{"topic":"X","n":3,"ratio":-0.25,"deep":[{"a":null}]}`: true,
		`{"id":9007199254740993}`:                               false,
		`{"deep":[1.0000000000000001]}`:                         false,
		`{"far":1e999}`:                                         false,
		`{"near":1e-999}`:                                       false,
		`{"zero":0.0}`:                                          true,
		`["a","b"]`:                                             false,
	} {
		sent, _ := a2atask.Offer(federation.Event{ID: id, Handoff: id, Title: "Cite", Context: context}, federation.View{Caps: []string{"cite"}}, "https://gw.example/p")
		request, err := pbconv.ToProtoSendMessageRequest(&wire.SendMessageRequest{Message: a2atask.ForProto(*sent)})
		if err != nil {
			t.Errorf("%s: %v", context, err)
			continue
		}
		got, err := pbconv.FromProtoSendMessageRequest(request)
		if err != nil {
			t.Fatal(err)
		}
		part := got.Message.Parts[1]
		text := part.Text()
		if isData {
			plain, err := json.Marshal(part.Data())
			if err != nil {
				t.Fatal(err)
			}
			text = string(plain)
		}
		if part.MediaType != "application/json" || !sameJSON(t, text, context) {
			t.Errorf("%s arrives as %s of %s", context, text, part.MediaType)
		}
	}
}

// sameJSON reports whether two texts are the same value, to the digit.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	if a == b {
		return true
	}
	x, err := jcs.Transform([]byte(a))
	y, err2 := jcs.Transform([]byte(b))
	return err == nil && err2 == nil && string(x) == string(y)
}
