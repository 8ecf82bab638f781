//go:build interop

package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fuzzed are the checks of schemathesis but one: a request may be in the contract and
// still be refused, for a cursor never given out.
const fuzzed = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance," +
	"response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth,nothing_of_others"

// schemathesis makes up requests of all sorts from the contract, in the version that
// .ci/run pins. The test sends them to every path without a token, as an agent and as an
// operator.
func TestSchemathesisAnswersAreInTheContract(t *testing.T) {
	t.Parallel()
	st := filepath.Join(clients(t), "schemathesis", "bin", "st")
	hooks, err := filepath.Abs(filepath.Join("testdata", "clients"))
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, "[rest]\nmax_wait = \"0s\"\n"+unlimited)
	h.start(t)
	h.ready(t)
	const planted = "seen by two alone"
	eliza, scholar := logIn(t, h.url()), logIn(t, h.url())
	var ids []string
	for range 2 {
		id := eliza.offer(t, map[string]any{"to": scholar.did, "title": planted, "context": map[string]any{"for": planted}})
		scholar.step(t, id, "accept", map[string]any{"note": planted})
		ids = append(ids, id)
	}
	scholar.step(t, ids[0], "complete", nil)
	handoffs, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Token string }
	h.asks(t, &made, "token", "create", "--scope", "read", "--name", "ann", "--reason", "looks")
	t.Cleanup(func() { // no caller changed a handoff of other parties
		for i, state := range []string{"completed", "assigned"} {
			var shown struct{ State string }
			eliza.must(t, http.StatusOK, http.MethodGet, "handoffs/"+ids[i], nil, &shown)
			if shown.State != state {
				t.Errorf("a handoff of others became %s", shown.State)
			}
		}
	})
	for _, who := range []struct {
		name, token, planted string
		args                 []string
	}{
		{"nobody", "", planted, []string{"--phases", "fuzzing"}},
		{"an agent", logIn(t, h.url()).token, planted, []string{"--phases", "coverage,fuzzing", "--exclude-path", "/api/v1/inbox/stream"}}, // which does not end
		{"an operator", made.Token, "", []string{"--phases", "fuzzing"}},
	} {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{
				"run", h.url() + "/openapi.json", "--max-examples", "4", "--generation-deterministic",
				"--continue-on-failure", "--checks", fuzzed, "--no-color", "--warnings", "off",
			}, who.args...)
			if who.token != "" {
				args = append(args, "-H", "Authorization: Bearer "+who.token)
			}
			cmd := exec.CommandContext(t.Context(), st, args...)
			cmd.Dir = t.TempDir() // for its findings
			cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=nosecrets", "PYTHONPATH="+hooks, "PYTHONDONTWRITEBYTECODE=1",
				"BATON_HANDOFFS="+string(handoffs), "BATON_PLANTED="+who.planted)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "No issues found") {
				t.Errorf("%v\n%s", err, out)
			}
			t.Log(lastLines(string(out), 6)) // the number of requests
		})
	}
}

// lastLines returns the end of an output.
func lastLines(text string, n int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}
