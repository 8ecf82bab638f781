package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// a2aAnswer is the answer to a call of a method of A2A.
type a2aAnswer struct {
	status int // of HTTP; any other than 200 is answered without JSON
	Result any
	Error  struct {
		Code    int // 0 for none
		Message string
	}
}

// callA2A calls a method of A2A at an endpoint.
func (c *caller) callA2A(tb testing.TB, endpoint, method string, params any) (answer a2aAnswer) {
	tb.Helper()
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		tb.Fatal(err)
	}
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, c.url+endpoint, bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Authorization": {"Bearer " + c.token}}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	answer.status = response.StatusCode
	if answer.status != http.StatusOK {
		return answer
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		tb.Fatalf("%s is answered: %v", method, err)
	}
	return answer
}

// a2a calls a method of A2A at an endpoint, which must not refuse, and returns its result.
func (c *caller) a2a(tb testing.TB, endpoint, method string, params any) any {
	tb.Helper()
	answer := c.callA2A(tb, endpoint, method, params)
	if answer.status != http.StatusOK || answer.Error.Code != 0 {
		tb.Fatalf("%s is answered %+v", method, answer)
	}
	return answer.Result
}

// A client that reads its tasks and acknowledges nothing has all its work done, though its inbox
// has space for the steps of one task of the worker.
func TestA2APollingNeverFillsTheInbox(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\ninbox_events_per_sender = 4\n"+anyAddress)
	h.start(t)
	worker, ada := logIn(t, h.url()), logIn(t, h.url())
	worker.must(t, http.StatusOK, http.MethodPut, "agents/"+url.PathEscape(string(worker.did)), map[string]any{"caps": []string{"cite"}}, nil)
	endpoint := "/a2a/" + string(worker.did)
	for n := range 5 {
		sent := ada.a2a(t, endpoint, "SendMessage", map[string]any{
			"message":       map[string]any{"messageId": fmt.Sprint("m", n), "role": "ROLE_USER", "parts": []any{map[string]any{"text": "Cite three"}}},
			"configuration": map[string]any{"returnImmediately": true},
		})
		id, _ := member(sent, "task", "id").(string)
		for _, verb := range []string{"accept", "progress", "complete"} {
			worker.step(t, id, verb, map[string]any{"note": "here"})
		}
		if got := member(ada.a2a(t, endpoint, "GetTask", map[string]any{"id": id}), "status", "state"); got != "TASK_STATE_COMPLETED" {
			t.Errorf("the task %d is %v", n, got)
		}
		var inbox struct{ Items []struct{ Cursor string } }
		worker.must(t, http.StatusOK, http.MethodGet, "inbox", nil, &inbox)
		worker.must(t, http.StatusNoContent, http.MethodPost, "inbox/ack", map[string]any{"device": "work", "cursor": inbox.Items[len(inbox.Items)-1].Cursor}, nil)
	}
}

// member returns a member of a JSON object, or of the first of a list.
func member(of any, path ...string) any {
	for _, name := range path {
		if list, ok := of.([]any); ok && len(list) > 0 {
			of = list[0]
		}
		object, _ := of.(map[string]any)
		of = object[name]
	}
	return of
}
