package a2a_test

import (
	"encoding/json"
	"fmt"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// list returns the IDs that a list has, in order, and the answer.
func list(t *testing.T, a *agent, endpoint string, req wire.ListTasksRequest) ([]wire.TaskID, *wire.ListTasksResponse) {
	t.Helper()
	got, err := a.client(t, endpoint).ListTasks(t.Context(), &req)
	if err != nil {
		t.Fatalf("ListTasks: %v", err)
	}
	ids := []wire.TaskID{}
	for _, task := range got.Tasks {
		ids = append(ids, task.ID)
	}
	return ids, got
}

func TestListIsNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob, cleo := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite"), w.login(t, "cleo").declares(t, "cite")
	inContext := func(text string) *wire.Message {
		m := words(text)
		m.ContextID = "thesis"
		return m
	}
	one, two := send(t, ada, bob.path(), inContext("one")), send(t, ada, bob.path(), words("two"))
	three, four := send(t, ada, cleo.path(), inContext("three")), send(t, ada, "/a2a", words("four"))
	send(t, cleo, bob.path(), words("of another caller"))
	send(t, bob, bob.path(), words("to himself"))
	bob.takes(t, one.ID, federation.Accept, participant.StepRequest{})
	bob.takes(t, one.ID, federation.Complete, participant.StepRequest{Note: "here"})
	view, err := w.record.View(t.Context(), federationID(t, three.ID))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		path string
		req  wire.ListTasksRequest
		want []wire.TaskID
	}{
		"all":                            {"/a2a", wire.ListTasksRequest{}, []wire.TaskID{one.ID, four.ID, three.ID, two.ID}},
		"at the endpoint of an agent":    {bob.path(), wire.ListTasksRequest{}, []wire.TaskID{one.ID, two.ID}},
		"of a context":                   {"/a2a", wire.ListTasksRequest{ContextID: "thesis"}, []wire.TaskID{one.ID, three.ID}},
		"of the context that a task is":  {"/a2a", wire.ListTasksRequest{ContextID: string(two.ID)}, []wire.TaskID{two.ID}},
		"of a context that never was":    {"/a2a", wire.ListTasksRequest{ContextID: "none"}, []wire.TaskID{}},
		"in a state":                     {"/a2a", wire.ListTasksRequest{Status: wire.TaskStateCompleted}, []wire.TaskID{one.ID}},
		"in a state that no handoff has": {"/a2a", wire.ListTasksRequest{Status: wire.TaskStateInputRequired}, []wire.TaskID{}},
		"that moved since":               {"/a2a", wire.ListTasksRequest{StatusTimestampAfter: &view.Moved}, []wire.TaskID{one.ID, four.ID, three.ID}},
	} {
		got, page := list(t, ada, tt.path, tt.req)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if page.TotalSize != len(tt.want) || page.PageSize != 50 || page.NextPageToken != "" {
			t.Errorf("%s: %d of %d, next %q", name, page.PageSize, page.TotalSize, page.NextPageToken)
		}
	}
}

func TestListHasPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	var want []wire.TaskID
	for n := range 7 {
		task := send(t, ada, bob.path(), words(fmt.Sprint(n)))
		want = append([]wire.TaskID{task.ID}, want...)
		send(t, ada, "/a2a", words("between them"))
	}
	var got []wire.TaskID
	req, sizes := wire.ListTasksRequest{PageSize: 3}, []int{}
	for {
		ids, page := list(t, ada, bob.path(), req)
		if page.TotalSize != 7 || page.PageSize != 3 {
			t.Errorf("a page of %d, of %d", page.PageSize, page.TotalSize)
		}
		got, sizes = append(got, ids...), append(sizes, len(ids))
		if req.PageToken = page.NextPageToken; req.PageToken == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all pages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{3, 3, 1}, sizes); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

func TestListHasArtifactsOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("one"))
	bob.takes(t, task.ID, federation.Accept, participant.StepRequest{})
	bob.takes(t, task.ID, federation.Complete, participant.StepRequest{Note: "here"})
	for _, with := range []bool{true, false} {
		got := ada.call(t, "/a2a", "ListTasks", fmt.Sprintf(`{"includeArtifacts":%t,"historyLength":0}`, with))
		var page struct{ Tasks []map[string]json.RawMessage }
		if err := json.Unmarshal(got.Result, &page); err != nil {
			t.Fatal(err)
		}
		_, has := page.Tasks[0]["artifacts"]
		_, told := page.Tasks[0]["history"]
		if has != with || told {
			t.Errorf("includeArtifacts %t: %s", with, got.Result)
		}
	}
}

func TestListRefusesMalformedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.login(t, "ada")
	for _, params := range []string{
		`{"pageSize":0}`, `{"pageSize":101}`, `{"pageSize":-1}`, `{"pageSize":"many"}`, `{"pageToken":"x"}`, `{"status":"TASK_STATE_RUNNING"}`,
		`{"historyLength":-1}`, `{"statusTimestampAfter":"yesterday"}`, `[]`, `"x"`,
	} {
		if got := ada.call(t, "/a2a", "ListTasks", params); got.Error == nil || got.Error.Code != -32602 {
			t.Errorf("%s is answered %s", params, got.Text)
		}
	}
	if got := ada.call(t, "/a2a", "ListTasks", `{"status":"TASK_STATE_UNSPECIFIED","pageSize":100}`); got.Error != nil {
		t.Errorf("no state is answered %s", got.Text)
	}
}
