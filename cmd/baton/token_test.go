package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stranger is a client that asks a gateway over its listener, with a file for the token.
type stranger struct {
	*house

	file string
}

func (s stranger) flags(args ...string) []string {
	return append([]string{"--gateway", "http://" + s.admin, "--token-file", s.file}, args...)
}

// refused runs a command that must end as refused, and returns its reason.
func (s stranger) refused(t *testing.T, args ...string) string {
	t.Helper()
	cmd := s.command(t, s.flags(args...)...)
	out, err := cmd.Output()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 3 {
		t.Fatalf("baton %v: %v, prints %s; want exit code 3", args, err, out)
	}
	return string(exit.Stderr)
}

func TestTokenIsNeededByRemoteOperators(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	ann := stranger{h, filepath.Join(h.dir, "ann.token")}
	if err := os.WriteFile(ann.file, []byte("baton_op_of_my_own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if told := ann.refused(t, "link", "list"); !strings.Contains(told, `"code":"unauthorized"`) {
		t.Errorf("a token that nobody made: %s", told)
	}
	var made struct{ Token, Name, Scope string }
	h.asks(t, &made, "token", "create", "--scope", "operate", "--name", "ann", "--reason", "on call")
	h.secrets = append(h.secrets, made.Token)
	if err := os.WriteFile(ann.file, []byte(made.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.kill(t)
	h.start(t)
	h.ready(t)
	h.asks(t, &struct{}{}, ann.flags("feed", "hold", "airc", "--reason", "a drill")...)
	for _, args := range [][]string{{"token", "create", "--scope", "read"}, {"bind", "add", "airc", "ann", "did:plc:annannannannannannannann"}} {
		if told := ann.refused(t, args...); !strings.Contains(told, `"code":"forbidden","detail":"token ann has scope operate, and this needs admin"`) {
			t.Errorf("baton %v: %s", args, told)
		}
	}
	var changes struct {
		Items []struct{ Actor, What, Subject, Reason string }
	}
	h.asks(t, &changes, "audit", "list", "--actor", "token:ann")
	if len(changes.Items) != 1 || changes.Items[0].What != "feed hold" || changes.Items[0].Reason != "a drill" {
		t.Errorf("the audit log has %+v, want the hold", changes.Items)
	}
	h.keepsNoToken(t, made.Token)
	ann.watchesUntilRevoked(t)
	if told := ann.refused(t, "link", "list"); !strings.Contains(told, `"code":"unauthorized"`) {
		t.Errorf("a token that is revoked: %s", told)
	}
}

// keepsNoToken looks for a token in the files of the record.
func (h *house) keepsNoToken(t *testing.T, token string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "data", "baton.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the record is in %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(token)) {
			t.Errorf("the token is in %s", file)
		}
	}
}

// watchesUntilRevoked watches a list, ends the token meanwhile, and waits for the end.
func (s stranger) watchesUntilRevoked(t *testing.T) {
	t.Helper()
	watch := s.command(t, s.flags("link", "list", "--watch")...)
	lines := startReading(t, watch)
	if !lines.Scan() {
		t.Fatalf("nothing to watch: %v", lines.Err())
	}
	s.asks(t, &struct{}{}, "token", "revoke", "ann", "--reason", "lost it")
	for lines.Scan() {
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("whoever watched ends with %v", err)
	}
}
