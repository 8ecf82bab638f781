package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// examined runs the doctor and returns its lines by check, and its exit code.
func (h *house) examined(t *testing.T, args ...string) (lines map[string]string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--config", h.config, "doctor"}, args...)...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	lines = map[string]string{}
	for line := range strings.Lines(string(out)) {
		_, rest, _ := strings.Cut(line, " ")
		check, _, _ := strings.Cut(rest, ": ")
		lines[check] = strings.TrimSpace(line)
	}
	return lines, code
}

func TestTheDoctorSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	found, code := v.examined(t, "--online")
	for check, want := range map[string]string{
		"record": "ok record: ", "disk": " disk: ", "permissions": "ok permissions: ", "clock": "ok clock: nobody to compare with", "certificate": "ok certificate: ",
		"did": "FAIL did: ", "well-known": "FAIL well-known: ", "relay": "ok relay: ", "link lab": "ok link lab: spanningtree up", "round trip lab": "warn round trip lab: ", "fsync": " fsync: p99 of 20 writes is ",
	} {
		if !strings.Contains(found[check], want) {
			t.Errorf("%s: %q, want %q", check, found[check], want)
		}
	}
	if code != 1 {
		t.Errorf("exit code %d, want 1: gw.test is no domain", code)
	}
	secret := filepath.Join(v.dir, "data", "lab.secret")
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	v.ircd.Close()
	await(t, "the link to be down", func() bool {
		found, _ = v.examined(t)
		return strings.HasPrefix(found["link lab"], "FAIL ")
	})
	if want := "; chmod 600 " + secret; !strings.HasPrefix(found["permissions"], "FAIL ") || !strings.HasSuffix(found["permissions"], want) {
		t.Errorf("permissions: %q, want %q", found["permissions"], want)
	}
	out, _ := v.command(t, "doctor").Output()
	if !strings.Contains(string(out), `"state":"fail"`) {
		t.Errorf("with --json it says %s", out)
	}
	v.stop(t)
	if _, code := v.examined(t); code != 4 {
		t.Errorf("without a gateway the exit code is %d, want 4", code)
	}
}
