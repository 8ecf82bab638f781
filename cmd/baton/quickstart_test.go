package main_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// quickstarts runs the command and returns its output and exit code.
func quickstarts(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"quickstart"}, args...)...)
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), told.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), told.String(), 0
}

func TestQuickstartNeedsNoEdits(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"spanningtree", "freeq", "client", "none"} {
		dir := filepath.Join(t.TempDir(), "gw")
		said, told, code := quickstarts(t, "--home", "gw.example", "--network", network, "--for", "none", "--dir", dir)
		if code != 0 {
			t.Fatalf("%s: %d, %s", network, code, told)
		}
		for _, heading := range []string{"# DNS records", "# Ports to open", "# Commands to start", "# What to send to the first peer"} {
			if !strings.Contains(said, heading) {
				t.Errorf("%s: the output lacks %q", network, heading)
			}
		}
		config := filepath.Join(dir, "baton.toml")
		// Steps left to the operator are listed on stderr.
		if out, err := exec.CommandContext(t.Context(), program, "config", "check", config).Output(); err != nil || string(out) != config+": ok\n" {
			t.Errorf("%s: config check says %s, %v", network, out, err)
		}
	}
}

func TestQuickstartServes(t *testing.T) {
	t.Parallel()
	serveQuickstart(t, "--home", "gw.example", "--network", "client", "--for", "none")
}

// A person creates an agent on the page of a gateway on its own machine.
func TestQuickstartForALaptopLogsInHosts(t *testing.T) {
	t.Parallel()
	h, said := serveQuickstart(t, "--for", "laptop")
	if strings.Contains(said, "DNS") || !strings.Contains(said, "# Commands to start\nbaton config check ") || !strings.Contains(said, "\nclaude mcp login baton\n") {
		t.Errorf("it prints %s", said)
	}
	if code, page := newVisitor(t, h).create(t, "fresh_scout"); code == "" {
		t.Errorf("the page answers %s", page)
	}
}

// serveQuickstart runs the gateway of a quickstart, and returns the command's
// output.
func serveQuickstart(t *testing.T, arguments ...string) (h *house, said string) {
	t.Helper()
	h = &house{dir: filepath.Join(t.TempDir(), "gw")}
	h.config, h.log = filepath.Join(h.dir, "baton.toml"), filepath.Join(t.TempDir(), "stderr")
	said, told, code := quickstarts(t, append(arguments, "--dir", h.dir)...)
	if code != 0 {
		t.Fatalf("%d, %s", code, told)
	}
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	h.public, h.admin = federationtest.FreeAddr(t), federationtest.FreeAddr(t)
	ports := strings.NewReplacer("127.0.0.1:8080", h.public, "127.0.0.1:8081", h.admin, "127.0.0.1:6667", federationtest.FreeAddr(t)) // others may use these here
	if err := os.WriteFile(h.config, []byte(ports.Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.inspect(t) })
	h.start(t)
	h.ready(t)
	return h, said
}

// A program that no shell finds by its name is called by its path, and copied for a unit.
func TestQuickstartPrintsCommandsToPaste(t *testing.T) {
	t.Parallel()
	found, err := exec.LookPath(program)
	if err == nil {
		found, err = filepath.EvalSymlinks(found)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(found)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "my programs", program)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		starter, path string
		want          []string
	}{
		{"systemd", program, []string{"install -m 0755 " + found + " /usr/local/bin/baton", "baton config check DIR/baton.toml", "systemctl daemon-reload", "baton --config DIR/baton.toml doctor"}},
		{"compose", program, []string{"baton config check DIR/baton.toml", "docker build -f deploy/Dockerfile -t ghcr.io/baton-gateway/baton .", "docker compose -f DIR/compose.yaml up -d"}},
		{"none", program, []string{"baton config check DIR/baton.toml", "baton serve --config DIR/baton.toml"}},
		{"none", path, []string{"'" + path + "' config check DIR/baton.toml", "'" + path + "' serve --config DIR/baton.toml", "'" + path + "' --config DIR/baton.toml doctor"}},
		{"systemd", path, []string{"install -m 0755 '" + path + "' /usr/local/bin/baton"}},
	} {
		dir := filepath.Join(t.TempDir(), "gw")
		out, err := exec.CommandContext(t.Context(), test.path, "quickstart", "--home", "gw.example", "--network", "none", "--for", test.starter, "--dir", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		_, commands, _ := strings.Cut(string(out), "# Commands to start\n")
		for _, want := range test.want {
			line := strings.ReplaceAll(want, "DIR", dir)
			if !strings.Contains("\n"+commands, "\n"+line+"\n") && !strings.Contains("\n"+commands, "\n"+line+"  ") {
				t.Errorf("%s, %s: no line %q in\n%s", test.starter, test.path, line, commands)
			}
		}
	}
}

func TestQuickstartKeepsExistingFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--home", "gw.example", "--network", "spanningtree", "--for", "systemd", "--dir", dir}
	if _, told, code := quickstarts(t, args...); code != 0 {
		t.Fatalf("%d, %s", code, told)
	}
	for name, want := range map[string]fs.FileMode{"data": 0o700 | fs.ModeDir, "data/keys": 0o700 | fs.ModeDir, "data/lab.send": 0o600, "data/lab.recv": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s is %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	secret, err := os.ReadFile(filepath.Join(dir, "data", "lab.send"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "baton.toml")); err != nil {
		t.Fatal(err)
	}
	if _, told, code := quickstarts(t, args...); code != 1 || !strings.Contains(told, "is there already") {
		t.Errorf("a second run ends with %d, %s", code, told)
	}
	if _, err := os.Stat(filepath.Join(dir, "baton.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a run that was refused wrote a file: %v", err)
	}
	if _, told, code := quickstarts(t, append(args, "--force")...); code != 0 {
		t.Fatalf("%d, %s", code, told)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "data", "lab.send.bak")); err != nil || !bytes.Equal(kept, secret) {
		t.Errorf("the old secret is not kept: %v", err)
	}
}

func TestQuickstartWithoutATerminalNeedsEachValue(t *testing.T) {
	t.Parallel()
	all := [][]string{{"--home", "gw.example"}, {"--network", "none"}, {"--for", "none"}}
	for i, missing := range all {
		dir := t.TempDir()
		args := []string{"--dir", dir}
		for j, each := range all {
			if i != j {
				args = append(args, each...)
			}
		}
		if _, told, code := quickstarts(t, args...); code != 2 || !strings.Contains(told, missing[0]+" is missing") {
			t.Errorf("without %s: %d, %s", missing[0], code, told)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("without %s: wrote %v, %v", missing[0], files, err)
		}
	}
}
