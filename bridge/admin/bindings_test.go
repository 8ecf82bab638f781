package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestReleaseHandleIsAudited(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if err := h.AddAgent(t.Context(), federationtest.NewAgent("scout")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		handle, body string
		status       int
		want         string
		released     bool
	}{
		{"nobody", `{}`, http.StatusNotFound, "there is no agent nobody", false},
		{"scout_7@peer.example", `{}`, http.StatusBadRequest, "is not the handle of an agent here", false},
		{"plc_ewvi7nxzyoun6zhxrhs64oiz", `{}`, http.StatusBadRequest, "is not the handle of an agent here", false},
		{"scout", `{"dry_run":true}`, http.StatusOK, `{"changed":1,"dry_run":true}`, false},
		{"@scout", `{"reason":"lost its key"}`, http.StatusOK, `{"changed":1}`, true},
		{"scout", `{}`, http.StatusOK, `{"changed":0}`, true},
	} {
		status, body := h.ask(t, http.MethodPost, "handles/"+test.handle+"/release", test.body)
		if status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("release %s %s: %d %s, want %d %s", test.handle, test.body, status, body, test.status, test.want)
		}
		if agent, err := h.Agent(t.Context(), "scout"); err != nil || agent.Released.IsZero() == test.released {
			t.Errorf("after %s %s it is released: %v, %v", test.handle, test.body, !agent.Released.IsZero(), err)
		}
	}
	changes, err := h.Changes(t.Context(), federation.ChangeFilter{}, 0, 10)
	if err != nil || len(changes) != 2 || changes[1].What != "airc release" || changes[1].Subject != "scout" || changes[1].Reason != "lost its key" {
		t.Errorf("audited %+v, %v", changes, err)
	}
}
