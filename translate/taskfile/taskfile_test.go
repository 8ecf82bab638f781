package taskfile_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/taskfile"
)

const record = `{"x_first":[1,{"b":1e400,"a":1.50}],"task_id":"t1","from_agent":"scanner","to_agent":null,"status":"offered",
"description":"Review <it> & \u00e5","context":{"line":12345678901234567890,"deep":{"z":1,"a":[]}},"created_at":"2026-11-23T10:00:00.000001+00:00","updated_at":"2026-11-23T10:00:00"}`

func now() time.Time { return time.Date(2026, 11, 23, 17, 0, 0, 123456789, time.UTC) }

func read(t *testing.T, text string) taskfile.Record {
	t.Helper()
	r, err := taskfile.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestApplyChangesOnlyTheMembersOfTheStep(t *testing.T) {
	t.Parallel()
	r := read(t, record)
	if r.To != "" || r.Status != taskfile.Offered || r.Description != "Review <it> & å" || r.Context() != `{"line":12345678901234567890,"deep":{"z":1,"a":[]}}` {
		t.Errorf("it is read as %+v with context %s", r, r.Context())
	}
	r, err := r.Moved(taskfile.Accepted, now()).For("reviewer").WithFed(taskfile.Fed{Version: 1, ID: "01K9ZQ0000000000000000000H", Note: "a<b"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "x_first": [
    1,
    {
      "b": 1e400,
      "a": 1.50
    }
  ],
  "task_id": "t1",
  "from_agent": "scanner",
  "to_agent": "reviewer",
  "status": "accepted",
  "description": "Review <it> & \u00e5",
  "context": {
    "line": 12345678901234567890,
    "deep": {
      "z": 1,
      "a": []
    },
    "_fed": {
      "v": 1,
      "id": "01K9ZQ0000000000000000000H",
      "note": "a<b"
    }
  },
  "created_at": "2026-11-23T10:00:00.000001+00:00",
  "updated_at": "2026-11-23T17:00:00.123456+00:00"
}
`
	if diff := cmp.Diff(want, string(r.Bytes())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := read(t, string(r.Bytes()))
	if again.Fed().Note != "a<b" || again.Context() != `{"line":12345678901234567890,"deep":{"z":1,"a":[]}}` {
		t.Errorf("it is read again as %+v", again.Fed())
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":            "{",
		"a list":             "[]",
		"two values":         record + "{}",
		"a member twice":     strings.Replace(record, "{", `{"task_id":"t1",`, 1),
		"no ID":              strings.Replace(record, `"t1"`, `""`, 1),
		"a number as ID":     strings.Replace(record, `"t1"`, `1`, 1),
		"another status":     strings.Replace(record, `"offered"`, `"done"`, 1),
		"a list as agent":    strings.Replace(record, `null`, `["a"]`, 1),
		"a text as context":  strings.Replace(record, `{"line":12345678901234567890,"deep":{"z":1,"a":[]}}`, `"x"`, 1),
		"a time that is no ": strings.Replace(record, `"2026-11-23T10:00:00"`, `"today"`, 1),
	} {
		if _, err := taskfile.Read([]byte(text)); !errors.Is(err, taskfile.ErrUnreadable) {
			t.Errorf("%s is read: %v", name, err)
		}
	}
}

func TestStatusStandsForSteps(t *testing.T) {
	t.Parallel()
	const none = "none"
	for _, tt := range []struct {
		state  federation.State
		status taskfile.Status
		want   string
	}{
		{federation.Offered, taskfile.Offered, ""},
		{federation.Offered, taskfile.Accepted, "accept"},
		{federation.Offered, taskfile.Completed, "accept complete"},
		{federation.Offered, taskfile.Failed, "accept fail"},
		{federation.Offered, taskfile.Rejected, "decline"},
		{federation.Open, taskfile.Accepted, "claim"},
		{federation.Open, taskfile.Rejected, none},
		{federation.Assigned, taskfile.Accepted, ""},
		{federation.Assigned, taskfile.Completed, "complete"},
		{federation.Assigned, taskfile.Failed, "fail"},
		{federation.Assigned, taskfile.Offered, none},
		{federation.Assigned, taskfile.Rejected, none},
		{federation.Completed, taskfile.Completed, ""},
		{federation.Completed, taskfile.Accepted, none},
		{federation.Declined, taskfile.Rejected, ""},
		{federation.Cancelled, taskfile.Rejected, ""},
		{federation.Cancelled, taskfile.Failed, ""},
		{federation.Cancelled, taskfile.Completed, none},
		{federation.Expired, taskfile.Rejected, ""},
	} {
		verbs, legal := taskfile.Verbs(tt.state, tt.status)
		var words []string
		for _, verb := range verbs {
			words = append(words, string(verb))
		}
		got := strings.Join(words, " ")
		if !legal {
			got = none
		}
		if got != tt.want {
			t.Errorf("%s in a handoff that is %s stands for %q, want %q", tt.status, tt.state, got, tt.want)
		}
	}
}

func TestStepsAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	var got []string
	for _, from := range taskfile.Statuses() {
		for _, to := range taskfile.Statuses() {
			if from.Leads(to) {
				got = append(got, string(from)+" "+string(to))
			}
		}
	}
	want := []string{"offered accepted", "offered rejected", "accepted completed", "accepted failed", "failed offered"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfferBecomesARecordWithoutLoss(t *testing.T) {
	t.Parallel()
	id, err := federation.ParseEventID("01K9ZQ0000000000000000000H")
	if err != nil {
		t.Fatal(err)
	}
	for context, want := range map[string]string{
		"": "", `{"n":1.50}`: `{"n":1.50}`, "https://gw.example/blob/cap/x": "", `[1]`: "", `{"_fed":1,"n":2}`: "",
	} {
		ev := federation.Event{ID: id, Handoff: id, Verb: federation.Offer, From: "did:plc:eliza", To: "did:plc:scholar", Title: "Cite", Context: context, ContextHash: "h"}
		view := federation.View{ID: id, State: federation.Offered, Offerer: ev.From, Offeree: ev.To, Version: 1, Caps: []string{"go"}, Deadline: now()}
		r, err := taskfile.Encode("gw.test", "research", "eliza", "scholar", translate.Step{Entry: federation.Entry{Event: ev, Filed: now()}, View: view})
		if err != nil {
			t.Fatal(err)
		}
		r = read(t, string(r.Bytes()))
		fed := r.Fed()
		if r.ID != taskfile.TaskID("research", id) || r.Context() != want || fed.ID != id.String() || fed.Deadline != now().Unix() || len(fed.Caps) != 1 {
			t.Errorf("%s becomes %s", context, r.Bytes())
		}
		if want == "" && fed.Context != context {
			t.Errorf("the context %s is lost: %+v", context, fed)
		}
	}
	if a, b := taskfile.TaskID("research", id), taskfile.TaskID("other", id); a == b || len(a) != 36 || a[14] != '4' {
		t.Errorf("the IDs are %s and %s", a, b)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(record))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := taskfile.Read(text)
		if err != nil {
			return
		}
		again, err := taskfile.Read(r.Bytes())
		if err != nil || again.ID != r.ID || again.Context() != r.Context() || !json.Valid(r.Bytes()) {
			t.Errorf("%q is written as %q: %v", text, r.Bytes(), err)
		}
	})
}
