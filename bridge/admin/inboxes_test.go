package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestHeldRelaysAreListedAllowedAndDropped(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for n := range 3 {
		m := federationtest.Message(n+1, "?amy_1@a.test", "scout")
		m.Envelope = fmt.Appendf(nil, `{"body":"line %d","payload":{"type":"task:request"}}`, n)
		if n == 2 {
			m.Envelope = []byte(`{"payload":{"type":"task:request"}}`)
		}
		if _, err := h.Post(t.Context(), agents.Posting{Message: m, Held: true}); err != nil {
			t.Fatal(err)
		}
	}
	_, body := h.ask(t, http.MethodGet, "held?limit=2", "")
	if !strings.Contains(body, `"id":1,"from":"?amy_1@a.test","to":"scout","text":"line 0"`) || !strings.Contains(body, `"next_cursor":"2"`) {
		t.Errorf("the first page: %s", body)
	}
	if _, body = h.ask(t, http.MethodGet, "held?cursor=2&to=@scout", ""); !strings.Contains(body, `"text":"{\"type\":\"task:request\"}"`) || !strings.Contains(body, `"next_cursor":""`) {
		t.Errorf("the second page: %s", body)
	}
	if _, body = h.ask(t, http.MethodGet, "held?to=nobody", ""); !strings.Contains(body, `"items":[]`) {
		t.Errorf("to another one: %s", body)
	}
	for _, test := range []struct {
		path, body string
		status     int
		want       string
		held       int // afterwards
	}{
		{"held/1/release", `{}`, http.StatusNotFound, "there is no verb release", 3},
		{"held/x/allow", `{}`, http.StatusBadRequest, "id: want a number", 3},
		{"held/9/allow", `{}`, http.StatusNotFound, "there is no held message 9", 3},
		{"held/1/allow", `{"dry_run":true}`, http.StatusOK, `{"changed":1,"dry_run":true}`, 3},
		{"held/1/allow", `{"reason":"I know her"}`, http.StatusOK, `{"changed":1}`, 2},
		{"held/1/allow", `{}`, http.StatusNotFound, "there is no held message 1", 2},
		{"held/2/drop", `{"reason":"spam"}`, http.StatusOK, `{"changed":1}`, 1},
		{"held/2/drop", `{}`, http.StatusNotFound, "there is no held message 2", 1},
	} {
		status, body := h.ask(t, http.MethodPost, test.path, test.body)
		if status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s: %d %s, want %d %s", test.path, test.body, status, body, test.status, test.want)
		}
		if held, err := h.HeldRelays(t.Context(), "", "", 0, 10); err != nil || len(held) != test.held {
			t.Errorf("after %s %s: %d held, %v, want %d", test.path, test.body, len(held), err, test.held)
		}
	}
	changes, err := h.Changes(t.Context(), federation.ChangeFilter{}, 0, 10)
	if err != nil || len(changes) != 2 || changes[0].What != "airc drop" || changes[1].What != "airc allow" ||
		!strings.HasPrefix(changes[1].Subject, "?amy_1@a.test to scout ") || changes[1].Reason != "I know her" {
		t.Errorf("audited %+v, %v", changes, err)
	}
}
