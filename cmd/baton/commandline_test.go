package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// prints runs the program, and returns its exit code, stdout and stderr.
func prints(t *testing.T, args ...string) (code int, out, told string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.Dir = &stdout, &stderr, t.TempDir()
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, stdout.String(), stderr.String()
}

func TestBatonWithoutACommandPrintsItsCommandsInGroups(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"help"}, {"--help"}, {"-h"}} {
		code, out, told := prints(t, args...)
		want := 0
		if len(args) == 0 {
			want = 2 // as of each command line without a command
		}
		if code != want || told != "" {
			t.Errorf("%v: exit code %d, %q", args, code, told)
		}
		at := 0
		for _, want := range []string{"Usage: baton", "Run a gateway:", "  serve ", "Configure it:", "  quickstart ", "Handoffs:", "Networks, peers and deliveries:", "  feed ", "Find out what is wrong:", "  doctor ", "Maintain it:", "  backup ", "The program:", "  version "} {
			found := strings.Index(out[at:], want)
			if found < 0 {
				t.Fatalf("%v: no %q after %q", args, want, out[:at])
			}
			at += found
		}
	}
	if code, out, _ := prints(t, "help", "feed", "list"); code != 0 || !strings.HasPrefix(out, "Usage: baton feed list") {
		t.Errorf("help feed list: %d %q", code, out)
	}
	if code, _, told := prints(t, "fed"); code != 2 || !strings.HasPrefix(told, "baton: usage: ") {
		t.Errorf("an unknown command: %d %q", code, told)
	}
}

func TestVersionFlagPrintsOneLine(t *testing.T) {
	t.Parallel()
	if code, out, told := prints(t, "--version"); code != 0 || told != "" || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "baton ") || !strings.Contains(out, ", revision ") {
		t.Errorf("got %d %q %q", code, out, told)
	}
}

// spec: minimal-handoff-v0.1
func TestDirTakesTheLinesOfHandoffPy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, told := prints(t, "dir", "offer", "Review auth module", "--from", "scanner", "--context", "file=src/auth.py", "line=42", "--dir", dir)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, told)
	}
	_, shown, _ := prints(t, "dir", "show", strings.TrimSpace(out), "--dir", dir, "--json")
	var record struct{ Context map[string]string }
	if err := json.Unmarshal([]byte(shown), &record); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"file": "src/auth.py", "line": "42"}, record.Context); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
	if code, _, told := prints(t, "dir", "offer", "--from", "scanner", "--context", "a=b", "the text = last", "--dir", dir); code != 0 {
		t.Errorf("a text after the context: %s", told)
	}
}

func TestConfigCheckAnswersMachines(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	check := func() (code int, got map[string]any, told string) {
		t.Helper()
		code, out, told := prints(t, "config", "check", h.config, "--json")
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %q", err, out)
		}
		return code, got, told
	}
	code, got, told := check()
	if diff := cmp.Diff(map[string]any{"file": h.config, "ok": true, "mistakes": []any{}, "warnings": []any{}}, got); code != 0 || told != "" || diff != "" {
		t.Errorf("%d %q (-want +got):\n%s", code, told, diff)
	}
	h.configure(t, "[limits]\nmax_hop = 3\n")
	code, got, told = check()
	mistakes, _ := got["mistakes"].([]any)
	if code != 1 || got["ok"] != false || len(mistakes) != 1 || !strings.HasPrefix(told, `{"error":{"code":"failed"`) {
		t.Fatalf("%d %v %q", code, got, told)
	}
	mistake, _ := mistakes[0].(map[string]any)
	if mistake["key"] != "limits.max_hop" || fmt.Sprint(mistake["line"]) != "13" || !strings.Contains(fmt.Sprint(mistake["why"]), "unknown key") {
		t.Errorf("got %v", mistake)
	}
}

func TestHintForTheNextPageCanBePasted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, offersOverREST)
	h.start(t)
	h.ready(t)
	for _, name := range []string{"ann", "bob", "eve"} {
		if out, err := h.command(t, "token", "create", "--name", name, "--scope", "read").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	_, first, told := prints(t, "--config", h.config, "audit", "list", "--limit", "1")
	line, ok := strings.CutPrefix(strings.TrimSpace(told), "there are more: baton ")
	if !ok {
		t.Fatalf("it says %q", told)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", program+" "+line)
	second, err := cmd.Output()
	if err != nil || string(second) == first || len(second) == 0 {
		t.Errorf("%s: %v: %q after %q", line, err, second, first)
	}
}
