package main_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// elsewhere returns the command of an agent host on another machine: it has no configuration and no
// operator socket, and keeps its sessions in a folder.
func (h *house) elsewhere(t *testing.T, state string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := h.command(t, append([]string{"mcp", "--gateway", h.url()}, arguments...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "BATON_CONFIG=/nonexistent")
	return cmd
}

func TestMCPCommandWorksOverThePublicListenerWithAKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	scholar := logIn(t, h.url())
	seed, did := newSeed(t)
	host := connectCommand(t, h.elsewhere(t, t.TempDir(), "--key-file", seed))
	id := scholar.offer(t, map[string]any{"to": did, "title": "Cite three"})
	arrived, code := host.tool("inbox_wait", map[string]any{"seconds": 20})
	if code != "" || member(arrived, "items", "step", "handoff_id") != id {
		t.Fatalf("the inbox is answered %s %v", code, arrived)
	}
	for _, step := range []struct {
		tool string
		more map[string]any
	}{
		{"handoff_accept", nil},
		{"handoff_progress", map[string]any{"note": "half", "idempotency_key": "k1"}},
		{"handoff_complete", map[string]any{"note": "done", "context": map[string]any{"text": strings.Repeat("x", 6000)}}},
	} {
		arguments := map[string]any{"id": id}
		maps.Copy(arguments, step.more)
		if got, code := host.tool(step.tool, arguments); code != "" {
			t.Fatalf("%s is refused: %s %v", step.tool, code, got)
		}
	}
	if got, code := host.tool("handoff_offer", map[string]any{"to": string(scholar.did), "title": "Thanks"}); code != "" {
		t.Errorf("an offer is refused: %s %v", code, got)
	}
	var shown shownHandoff
	h.asks(t, &shown, "handoff", "show", id)
	if shown.State != "completed" || len(shown.Steps) != 4 {
		t.Fatalf("the handoff is %+v", shown)
	}
	for _, step := range shown.Steps[1:] {
		if step.Provenance != "signed" {
			t.Errorf("a step is %+v", step)
		}
	}
}

func TestMCPCommandKeepsTheSessionOfAPairingCode(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	scout := logIn(t, h.url())
	var made struct{ Code string }
	scout.must(t, http.StatusOK, http.MethodPost, "pairing-codes", nil, &made)
	state := t.TempDir()
	first := connectCommand(t, h.elsewhere(t, state, "--pair", made.Code))
	if got, code := first.tool("inbox_list", nil); code != "" {
		t.Fatalf("the inbox is refused: %s %v", code, got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(state, "baton", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("kept are %q, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	for _, arguments := range [][]string{{"--pair", made.Code}, {}} { // the host starts it again as it is configured
		again := connectCommand(t, h.elsewhere(t, state, arguments...))
		got, code := again.tool("handoff_offer", map[string]any{"to": string(logIn(t, h.url()).did), "title": "Cite three"})
		if code != "" {
			t.Fatalf("with %q an offer is refused: %s %v", arguments, code, got)
		}
		var shown shownHandoff
		id, _ := member(got, "id").(string)
		h.asks(t, &shown, "handoff", "show", id)
		if shown.Steps[0].Provenance != "vouched" {
			t.Errorf("the offer is %+v", shown.Steps[0])
		}
		code2, _ := again.tool("pairing_code", nil)
		if text, _ := member(code2, "did").(string); text != string(scout.did) {
			t.Errorf("the tool pairing_code answers %v", code2)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var sessions struct {
		Items []struct {
			ID, Began string
			ExpiresAt time.Time `json:"expires_at"`
		}
	}
	scout.must(t, http.StatusOK, http.MethodGet, "sessions", nil, &sessions)
	for _, s := range sessions.Items {
		if s.Began == "pairing" {
			scout.must(t, http.StatusNoContent, http.MethodDelete, "sessions/"+s.ID, nil, nil)
		}
	}
	for name, tt := range map[string]struct {
		arguments []string
		state     string
		want      int
	}{
		"an ended session": {nil, state, 3}, "a used code": {[]string{"--pair", made.Code}, t.TempDir(), 3}, "a wrong code": {[]string{"--pair", "AAAA-AAAA"}, t.TempDir(), 3},
		"no session": {nil, t.TempDir(), 2}, "a code without a gateway": {[]string{"--gateway", "", "--pair", made.Code}, t.TempDir(), 2},
		"no gateway": {[]string{"--gateway", "http://127.0.0.1:1", "--pair", made.Code}, t.TempDir(), 4},
	} {
		cmd := h.elsewhere(t, tt.state, tt.arguments...)
		var stderr strings.Builder
		cmd.Stdin, cmd.Stderr = strings.NewReader(""), &stderr
		exit, _ := errors.AsType[*exec.ExitError](cmd.Run())
		if exit == nil || exit.ExitCode() != tt.want || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s ends with %v, %s", name, exit, stderr.String())
		}
	}
}

// An operator pairs a host for a DID, and the audit log has it.
func TestOperatorMakesAPairingCode(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[limits]\n"+anyAddress)
	h.start(t)
	_, did := newSeed(t)
	var made struct{ Code string }
	h.asks(t, &made, "token", "pair", "--did", did)
	host := connectCommand(t, h.elsewhere(t, t.TempDir(), "--pair", made.Code))
	got, code := host.tool("pairing_code", nil)
	if code != "" || member(got, "did") != did {
		t.Errorf("the host acts for %v, %s", got, code)
	}
	var audit struct{ Items []json.RawMessage }
	h.asks(t, &audit, "audit", "list")
	if text, _ := json.Marshal(audit); !strings.Contains(string(text), "token pair") { //nolint:errchkjson // of raw JSON
		t.Errorf("the audit log has %s", text)
	}
}
