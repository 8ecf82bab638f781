//go:build interop && long

package irc_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/conform/irc"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// startErgo runs Ergo as it is configured by default, with one listener, and returns its
// address. Its binary is one of the clients of others that .ci/run installs.
func startErgo(t *testing.T) string {
	t.Helper()
	program := filepath.Join(os.Getenv("BATON_CLIENTS"), "ergo", "ergo")
	if _, err := os.Stat(program); os.Getenv("BATON_CLIENTS") == "" || err != nil {
		t.Fatalf("BATON_CLIENTS names no folder with ergo/ergo: run .ci/run full (%v)", err)
	}
	config, err := exec.CommandContext(t.Context(), program, "defaultconfig").Output()
	if err != nil {
		t.Fatalf("defaultconfig: %v", err)
	}
	addr := federationtest.FreeAddr(t)
	listeners := regexp.MustCompile(`(?s)\n    listeners:\n.*?\n    (unix-bind-mode|# sets)`)
	config = listeners.ReplaceAll(config, []byte("\n    listeners:\n        \""+addr+"\": {}\n    $1"))
	languages := regexp.MustCompile(`(?s)(\nlanguages:\n.*?enabled: )true`) // whose files are not beside the binary
	config = languages.ReplaceAll(config, []byte("${1}false"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ircd.yaml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	initdb := exec.CommandContext(t.Context(), program, "initdb", "--conf", "ircd.yaml", "--quiet")
	initdb.Dir = dir
	if text, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, text)
	}
	server := exec.CommandContext(context.WithoutCancel(t.Context()), program, "run", "--conf", "ircd.yaml", "--quiet")
	server.Dir = dir
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
			return addr
		}
		if time.Now().After(late) {
			t.Fatalf("Ergo does not listen: %v", err)
		}
	}
}

func TestErgoConformsToWhatItClaims(t *testing.T) {
	results, err := irc.Run(t.Context(), irc.Config{URL: "irc://" + startErgo(t), Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, r := range results {
		switch {
		case r.Skipped():
			t.Logf("not played: %s: %s: %v", r.Section, r.Case, r.Err)
			continue
		case r.Err != nil:
			t.Errorf("%s: %s: %v", r.Section, r.Case, r.Err)
		}
		played++
	}
	const claimed = 30 // cases at least, for features that Ergo has claimed for years
	if played < claimed {
		t.Errorf("%d cases played, want at least %d", played, claimed)
	}
}
