package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// export writes the passport of a handoff into an empty folder.
func (h *house) export(t *testing.T, id string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if out, err := h.command(t, "handoff", "export", id, "-o", filepath.Join(folder, "passport.json")).CombinedOutput(); err != nil {
		t.Fatalf("export: %v, %s", err, out)
	}
	return folder
}

// verifyPassport checks the passport in a folder as a stranger does: with the program and
// nothing else.
func verifyPassport(t *testing.T, folder string) (told string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "handoff", "verify", "passport.json")
	cmd.Dir, cmd.Env = folder, []string{"PATH=" + os.Getenv("PATH"), quickExit}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// forgePassport changes a word of the passport in a folder.
func forgePassport(t *testing.T, folder, word, other string) {
	t.Helper()
	file := filepath.Join(folder, "passport.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), word) {
		t.Fatalf("the passport has no %q", word)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), word, other, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
