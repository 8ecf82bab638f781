//go:build long

package macp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// conformance copies the fixtures of the handoff mode to one folder: the fixtures of the authors of
// the protocol, which .ci/run installs, and each case of handoff-cases.json. It returns their senders
// and their number.
func conformance(t *testing.T, dir string) (senders []string, fixtures int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("BATON_CLIENTS"), "macp", "conformance", "handoff_*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures of the authors are installed, %v: run .ci/run install full", err)
	}
	var all []json.RawMessage
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if vectors := os.Getenv("BATON_VECTORS"); vectors != "" {
		var cases struct {
			Cases []json.RawMessage `json:"cases"`
		}
		text, err := os.ReadFile(filepath.Join(vectors, "macp", "handoff-cases.json"))
		if err == nil {
			err = json.Unmarshal(text, &cases)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cases.Cases...)
	}
	for i, text := range all {
		var fixture struct {
			Initiator    string   `json:"initiator"`
			Participants []string `json:"participants"`
			Messages     []struct {
				Sender string `json:"sender"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(text, &fixture); err != nil {
			t.Fatal(err)
		}
		senders = append(append(senders, fixture.Initiator), fixture.Participants...)
		for _, m := range fixture.Messages {
			senders = append(senders, m.Sender)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("handoff_%02d.json", i)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	senders = append(senders, "macp-conform") // which registers the policies
	slices.Sort(senders)
	return slices.Compact(senders), len(all)
}

// The conformance runner of the authors of the protocol drives the runtime over both transports.
// It skips fixtures that need the clock of the runtime, and no other one.
func TestConformanceRunnerOfTheAuthorsPasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	senders, fixtures := conformance(t, dir)
	for _, transport := range []string{"grpc", "http"} {
		w := newWorld(t, senders...)
		args := []string{"--target", transport + "://" + w.cfg.Listen, "--transport", transport, "--fixtures", dir, "--level", "standard", "--report", "-", "--quiet"}
		for _, sender := range senders {
			args = append(args, "--token", sender+"="+token(sender))
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("BATON_CLIENTS"), "macp", "bin", "macp-conform"), args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, ended := cmd.Output()
		var report struct {
			Fixtures []struct {
				Name, Outcome, Reason string
				Failure               json.RawMessage
			} `json:"fixtures"`
		}
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatalf("%s: %v, %v\n%s", transport, ended, err, stderr.Bytes())
		}
		passed := 0
		for _, f := range report.Fixtures {
			switch {
			case f.Outcome == "pass":
				passed++
			case f.Outcome != "skipped" || f.Reason != "needs-clock-control":
				t.Errorf("%s: %s: %s %s: %s", transport, f.Name, f.Outcome, f.Reason, f.Failure)
			}
		}
		if len(report.Fixtures) != fixtures || passed < fixtures-1 { // one drives the clock
			t.Errorf("%s: %d of %d fixtures pass", transport, passed, fixtures)
		}
		t.Logf("%s: %d of %d fixtures pass", transport, passed, fixtures)
	}
}
