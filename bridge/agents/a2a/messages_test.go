package a2a_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

func TestMessageIsAnOffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	long := strings.Repeat("ä", 301)
	for name, tt := range map[string]struct {
		parts   string
		more    string // members of the message
		title   string
		context string
	}{
		"one line":                   {parts: `[{"text":"Cite three"}]`, title: "Cite three"},
		"two lines":                  {parts: `[{"text":"Cite three\nby Monday"}]`, title: "Cite three", context: `{"parts":[{"text":"Cite three\nby Monday"}]}`},
		"a first line without words": {parts: `[{"text":" \n Cite three\n"}]`, title: "Cite three"},
		"a line that is too long": {
			parts: `[{"text":"` + long + `"}]`, title: string([]rune(long)[:300]), context: `{"parts":[{"text":"` + long + `"}],"description":"` + long + `"}`,
		},
		"a tab":                 {parts: `[{"text":"Cite\tthree"}]`, title: "Cite three", context: `{"parts":[{"text":"Cite\tthree"}]}`},
		"a line and an object":  {parts: `[{"text":"Cite"},{"data":{"n":3}}]`, title: "Cite", context: `{"n":3}`},
		"a line and a list":     {parts: `[{"data":[ 1, 2.50 ]},{"text":"Cite"}]`, title: "Cite", context: `[1,2.50]`},
		"a line and a number":   {parts: `[{"text":"Cite"},{"data":3}]`, title: "Cite", context: `{"parts":[{"text":"Cite"},{"data":3}]}`},
		"a line and a link":     {parts: `[{"text":"Cite"},{"url":"https://x.example/","mediaType":"text/html"}]`, title: "Cite", context: `{"parts":[{"text":"Cite"},{"url":"https://x.example/","mediaType":"text/html"}]}`},
		"a title of its own":    {parts: `[{"text":"by Monday"}]`, more: `,"metadata":{"handoff":{"title":"Cite"}}`, title: "Cite", context: `{"parts":[{"text":"by Monday"}]}`},
		"a title and an object": {parts: `[{"data":{"n":3}}]`, more: `,"metadata":{"handoff":{"title":"Cite"}}`, title: "Cite", context: `{"n":3}`},
		"unknown members":       {parts: `[{"text":"Cite","shade":"red"},{"data":1}]`, title: "Cite", context: `{"parts":[{"text":"Cite","shade":"red"},{"data":1}]}`},
	} {
		got := ada.call(t, bob.path(), "SendMessage", `{"message":{"messageId":"`+strings.ReplaceAll(name, " ", "-")+`","role":"ROLE_USER","parts":`+tt.parts+tt.more+`},"configuration":{"returnImmediately":true}}`)
		var sent struct{ Task struct{ ID wire.TaskID } }
		if err := json.Unmarshal(got.Result, &sent); err != nil {
			t.Fatalf("%s is answered %s", name, got.Text)
		}
		for entry, err := range w.record.Log(t.Context(), federationID(t, sent.Task.ID), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if ev := entry.Event; ev.Title != tt.title || ev.Context != tt.context || ev.To != bob.did || ev.Actor() != ada.did || ev.Arrival.Network != "a2a" {
				t.Errorf("%s is the offer %q with %s, to %s, from %s by %s", name, ev.Title, ev.Context, ev.To, ev.Actor(), ev.Arrival.Network)
			}
		}
	}
}

func TestMessageSetsTheTermsOfItsOffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	before := send(t, ada, bob.path(), words("First"))
	bob.takes(t, before.ID, federation.Decline, participant.StepRequest{})
	deadline := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	m := words("Again")
	m.Metadata = map[string]any{"handoff": map[string]any{"deadline": deadline, "caps": []string{"cite"}, "replaces": before.ID}}
	task := send(t, ada, "/a2a", m)
	view, err := w.record.View(t.Context(), federationID(t, task.ID))
	if err != nil {
		t.Fatal(err)
	}
	if !view.Deadline.Equal(deadline) || view.Replaces.String() != string(before.ID) || cmp.Diff([]string{"cite"}, view.Caps) != "" || view.Offeree != "" {
		t.Errorf("the handoff is %+v", view)
	}
}

func TestMessageRefusesOtherContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three"))
	for name, tt := range map[string]struct {
		message string
		want    []string
	}{
		"no message":                {`null`, []string{"-32602"}},
		"no ID":                     {`{"role":"ROLE_USER","parts":[{"text":"x"}]}`, []string{"-32602"}},
		"another role":              {`{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}`, []string{"-32602"}},
		"no parts":                  {`{"messageId":"m","role":"ROLE_USER","parts":[]}`, []string{"-32602"}},
		"a part that is null":       {`{"messageId":"m","role":"ROLE_USER","parts":[null]}`, []string{"-32602"}},
		"a part of two kinds":       {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","data":1}]}`, []string{"-32602"}},
		"no words":                  {`{"messageId":"m","role":"ROLE_USER","parts":[{"data":{}}]}`, []string{"-32602"}},
		"a context with a space":    {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"contextId":"a b"}`, []string{"-32602"}},
		"a context of 129":          {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"contextId":"` + strings.Repeat("c", 129) + `"}`, []string{"-32602"}},
		"bytes":                     {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},{"raw":"eHg="}]}`, []string{"-32005", "CONTENT_TYPE_NOT_SUPPORTED a2a-protocol.org"}},
		"a misspelt wish":           {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"handoff":{"dedline":"2030-01-01T00:00:00Z"}}}`, []string{"-32602"}},
		"a deadline that is none":   {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"handoff":{"deadline":"soon"}}}`, []string{"-32602"}},
		"replaces no ULID":          {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"handoff":{"replaces":"x"}}}`, []string{"-32602", "USAGE gw.example"}},
		"replaces what is not over": {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"handoff":{"replaces":"` + string(task.ID) + `"}}}`, []string{"-32004", "UNSUPPORTED_OPERATION a2a-protocol.org", "REPLACES_NOT_TERMINAL gw.example"}},
		"a task that never was":     {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"01K9ZQ0000000000000000000H"}`, []string{"-32001", "TASK_NOT_FOUND a2a-protocol.org"}},
		"a task that is there":      {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"` + string(task.ID) + `"}`, []string{"-32004", "UNSUPPORTED_OPERATION a2a-protocol.org"}},
		"a task of that context":    {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"` + string(task.ID) + `","contextId":"` + task.ContextID + `"}`, []string{"-32004", "UNSUPPORTED_OPERATION a2a-protocol.org"}},
		"a task of another context": {`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"taskId":"` + string(task.ID) + `","contextId":"other"}`, []string{"-32602"}},
	} {
		got := ada.call(t, bob.path(), "SendMessage", `{"message":`+tt.message+`}`)
		if diff := cmp.Diff(tt.want, faultOf(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", name, diff, got.Text)
		}
	}
	views, _, err := w.access.List(t.Context(), ada.caller, participant.Query{}, "", 10)
	if len(views) != 1 || err != nil {
		t.Errorf("%d handoffs, %v; want the first one alone", len(views), err)
	}
}

func TestMessageIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob, cleo := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite"), w.login(t, "cleo").declares(t, "cite")
	m := words("Cite three")
	first := send(t, ada, bob.path(), m)
	if again := send(t, ada, bob.path(), m); again.ID != first.ID {
		t.Errorf("the message again is task %s, want %s", again.ID, first.ID)
	}
	if other := send(t, ada, cleo.path(), m); other.ID == first.ID {
		t.Error("the message to another agent is the same task")
	}
	if other := send(t, cleo, bob.path(), m); other.ID == first.ID {
		t.Error("the message of another caller is the same task")
	}
	m.Parts = wire.ContentParts{wire.NewTextPart("Cite four")}
	_, err := ada.client(t, bob.path()).SendMessage(t.Context(), &wire.SendMessageRequest{Message: m})
	if !errors.Is(err, wire.ErrInvalidParams) {
		t.Errorf("another message with its ID: %v", err)
	}
}

func TestMessageWaitsForTheEndOfItsTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	started := time.Now()
	got, err := ada.client(t, bob.path()).SendMessage(t.Context(), &wire.SendMessageRequest{Message: words("Cite three")})
	if err != nil {
		t.Fatal(err)
	}
	if task, _ := got.(*wire.Task); task.Status.State != wire.TaskStateSubmitted || time.Since(started) < 200*time.Millisecond {
		t.Errorf("after %v the task is %s; want it submitted, after the longest wait", time.Since(started), task.Status.State)
	}
	patient := newWorld(t, func(d *deps) { d.HTTP.MaxWait = time.Minute })
	ada, bob = patient.login(t, "ada"), patient.login(t, "bob").declares(t, "cite")
	go func() {
		for {
			views, _, err := patient.access.List(t.Context(), bob.caller, participant.Query{}, "", 1)
			if err != nil {
				t.Error(err)
				return
			}
			if len(views) == 1 {
				id := wire.TaskID(views[0].View.ID.String())
				bob.takes(t, id, federation.Accept, participant.StepRequest{})
				bob.takes(t, id, federation.Complete, participant.StepRequest{Note: "here"})
				return
			}
		}
	}()
	got, err = ada.client(t, bob.path()).SendMessage(t.Context(), &wire.SendMessageRequest{Message: words("Cite three")})
	if err != nil {
		t.Fatal(err)
	}
	if task, _ := got.(*wire.Task); task.Status.State != wire.TaskStateCompleted || len(task.Artifacts) != 1 {
		t.Errorf("the task is %+v", task)
	}
}

func TestMessageReportsALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	w.leftTo = 0
	got := ada.call(t, bob.path(), "SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}`)
	if diff := cmp.Diff([]string{"-32603", "RATE_LIMITED gw.example"}, faultOf(got)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if meta := got.Error.Data[0]["metadata"]; cmp.Diff(map[string]any{"retry_after": "1"}, meta) != "" {
		t.Errorf("metadata %v", meta)
	}
}
