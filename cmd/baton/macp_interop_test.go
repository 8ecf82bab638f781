//go:build interop

package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The Python SDK of MACP works against "baton serve" unchanged.
func TestThePythonSDKOfMACP(t *testing.T) {
	t.Parallel()
	r := newMACPHouse(t)
	r.keep(t, "third.token", macpToken+"third")
	r.configure(t, r.table()+"[[macp.participants]]\nname = \"third\"\ndid = \"did:web:third.example\"\ntoken_file = \"third.token\"\n")
	r.start(t)
	r.ready(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(clients(t), "python", "bin", "python"), "testdata/clients/macp_sessions.py", r.address,
		"eliza", macpToken+"eliza", "other", macpToken+"other", "third", macpToken+"third")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	got := map[string]any{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var line [2]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		name, _ := line[0].(string)
		got[name] = line[1]
	}
	list := func(all ...any) any { return all }
	want := map[string]any{
		"modes": list("macp.mode.handoff.v1"), "start": "ok", "accept before an offer": "INVALID_ENVELOPE", "offer": "ok", "context": "ok",
		"second offer": "INVALID_ENVELOPE", "offer by the target": "FORBIDDEN", "accept by a stranger": "FORBIDDEN", "session of a stranger": "FORBIDDEN",
		"history": list("SessionStart", "HandoffOffer", "HandoffContext"), "accept": "ok", "decline after accept": "INVALID_ENVELOPE",
		"commit by the target": "FORBIDDEN", "commit": "ok", "live": list("HandoffAccept", "Commitment"), "offer after the end": "SESSION_NOT_OPEN",
		"lists": list(1.0, 1.0, 0.0), "decline": "ok", "offer to the same target": "INVALID_ENVELOPE", "offer to another target": "ok",
		"suspend": "ok", "accept while suspended": "SESSION_NOT_OPEN", "resume": "ok", "cancel by a participant": "FORBIDDEN", "cancel": "ok",
		"list with a bad token": "UNAUTHENTICATED", "unknown session": "SESSION_NOT_FOUND",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
