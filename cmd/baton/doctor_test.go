package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

func TestDoctorNamesCausesAndRemedies(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	found, code := v.examined(t, "--online")
	checkRemedies(t, found)
	for check, want := range map[string]string{
		"record": "ok record: ", "disk": " disk: ", "permissions": "ok permissions: ", "clock": "ok clock: nobody to compare with", "certificate": "ok certificate: ",
		"did": "FAIL did: ", "well-known": "FAIL well-known: ", "relay": "ok relay: ", "link lab": "ok link lab: spanningtree up", "round trip lab": "ok round trip lab: ", "fsync": " fsync: p99 of 20 writes is ",
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

// commands are the programs that remedies run.
var commands = []string{"baton", "chmod", "curl", "df", "dig", "dmesg", "du", "findmnt", "ip", "ls", "ss", "sudo", "timedatectl"}

// checkRemedies fails for each warning and failure whose line does not end in a command.
func checkRemedies(t *testing.T, found map[string]string) {
	t.Helper()
	for check, line := range found {
		if strings.HasPrefix(line, "ok ") {
			continue
		}
		_, remedy, _ := strings.Cut(line[strings.LastIndex(line, "; "):], "; ")
		if colon := strings.LastIndex(remedy, ": "); colon >= 0 {
			remedy = remedy[colon+2:]
		}
		first, _, _ := strings.Cut(remedy, " ")
		if !slices.Contains(commands, first) {
			t.Errorf("%s: the remedy is no command: %q", check, line)
		}
	}
}

func TestDoctorExaminesWhatAStoppedGatewayNeeds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	h.stop(t)
	found, code := h.examined(t)
	for check, want := range map[string]string{
		"configuration": "ok configuration: ", "record": "ok record: it can be read, and is of version ", "permissions": "ok permissions: ", "keys": "ok keys: ",
		"certificate": "ok certificate: ", "ports": "ok ports: 2 are free", "relay": "ok relay: ", "fsync": " fsync: ", "disk": " disk: ", "clock": " clock: ", "dns": "warn dns: ",
	} {
		if !strings.Contains(found[check], want) {
			t.Errorf("%s: %q, want %q", check, found[check], want)
		}
	}
	if code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	checkRemedies(t, found)
	var page struct{ Items []map[string]string }
	cmd := h.command(t, "doctor")
	var told strings.Builder
	cmd.Stderr = &told
	out, _ := cmd.Output()
	if err := json.Unmarshal(out, &page); err != nil || len(page.Items) != len(found) || !strings.Contains(told.String(), `"code":"unavailable"`) {
		t.Errorf("with --json: %v: %s%s", err, out, told.String())
	}
}

func TestDoctorNamesTheCauseThatKeepsAGatewayFromStarting(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, test := range map[string]struct {
		spoil       func(h *house)
		check, want string
		remedy      string
		fails       bool // the start
	}{
		"a taken port":       {func(h *house) { h.public = taken.Addr().String(); h.configure(t) }, "ports", "FAIL ports: address already in use: " + taken.Addr().String() + " of http.listen; ", "ss -ltnp", true},
		"an unknown key":     {func(h *house) { h.configure(t, "[limits]\nmax_hop = 3\n") }, "configuration", "limits.max_hop: unknown key", "baton config check ", true},
		"no TOML":            {func(h *house) { h.configure(t, "[limits\n") }, "configuration", "FAIL configuration: ", "baton config check ", true},
		"a hub that is down": {func(h *house) { h.configure(t, "[relay.hub]\nurls = [\"nats://127.0.0.1:1\"]\n") }, "relay", "FAIL relay: hub: nats://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; ", "baton config check", false},
		"a PostgreSQL that is down": {func(h *house) {
			h.keep(t, "dsn", "postgres://baton:secret@127.0.0.1:1/baton")
			h.configure(t, "[store]\ndriver = \"postgres\"\ndsn_file = \"dsn\"\n")
		}, "record", "PostgreSQL: ", "baton doctor", true},
		"a record that is none": {func(h *house) {
			if err := os.WriteFile(filepath.Join(h.dir, "data", "baton.db"), []byte(strings.Repeat("no record ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "record", "FAIL record: ", "baton verify", true},
		"a key that others can read": {func(h *house) {
			h.start(t)
			h.stop(t)
			if err := os.Chmod(filepath.Join(h.dir, "data", "keys", "server"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "permissions", "FAIL permissions: others may read ", "chmod 600 ", true},
		"a wrong type":     {func(h *house) { h.configure(t, "[limits]\nmax_hops = \"many\"\n") }, "configuration", "limits.max_hops: ", "baton config check ", true},
		"a missing key":    {func(h *house) { h.configure(t, "[[irc.spanningtree]]\nname = \"lab\"\n") }, "configuration", "irc.spanningtree.address: want exactly one of address", "baton config check ", true},
		"a missing secret": {func(h *house) { h.configure(t, lineTo("lab", "irc.test", "address", "127.0.0.1:1", "9GW")) }, "configuration", "lab.secret: no such file or directory", "baton config check ", true},
		"two links with one name": {func(h *house) {
			h.keep(t, "lab.secret", "planted-secret")
			line := lineTo("lab", "irc.test", "address", "127.0.0.1:1", "9GW")
			h.configure(t, line, line)
		}, "configuration", "lab", "baton config check ", true},
		"two listeners with one port":   {func(h *house) { h.admin = h.public; h.configure(t) }, "configuration", "admin.listen: ", "baton config check ", true},
		"operators on a public address": {func(h *house) { h.admin = "198.51.100.7:8081"; h.configure(t) }, "configuration", "admin.listen: ", "baton config check ", true},
		"an address of another machine": {func(h *house) { h.public = "192.0.2.1:8080"; h.configure(t) }, "ports", "FAIL ports: cannot assign requested address: 192.0.2.1:8080 of http.listen; ", "ip -brief address", true},
		"a missing certificate": {func(h *house) {
			h.configure(t, "[tls]\ncert_file = \"fullchain.pem\"\nkey_file = \"privkey.pem\"\n")
		}, "certificate", "fullchain.pem: no such file or directory", "baton config check", true},
		"a damaged key": {func(h *house) {
			h.start(t)
			h.stop(t)
			if err := os.WriteFile(filepath.Join(h.dir, "data", "keys", "server"), []byte("no key"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "keys", "FAIL keys: ", "ls -l ", true},
		"a record of a newer version": {func(h *house) {
			h.start(t)
			h.stop(t)
			file, err := os.OpenFile(filepath.Join(h.dir, "data", "baton.db"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if _, err := file.WriteAt([]byte{0, 0, 0, 99}, 60); err != nil { // user_version
				t.Fatal(err)
			}
		}, "record", "FAIL record: ", "run a newer one", true},
		"an expired certificate": {func(h *house) {
			own := certify(t, h, "gw.test")
			own.replace(t, certificateUntil(t, time.Now().Add(-time.Hour)))
			h.configure(t, fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n", own.certFile, own.keyFile))
		}, "certificate", "FAIL certificate: expired at ", "baton config check", false},
		"a certificate of another key": {func(h *house) {
			own, other := certify(t, h, "gw.test"), certify(t, h, "other.test")
			h.configure(t, fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n", own.certFile, other.keyFile))
		}, "certificate", "FAIL certificate: want a certificate and its key in PEM: tls: private key does not match public key; ", "baton config check", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			test.spoil(h)
			last := ""
			if test.fails {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, program, "--config", h.config, "serve")
				var told strings.Builder
				cmd.Stderr = &told
				if err := cmd.Run(); err == nil || ctx.Err() != nil {
					t.Error("it starts")
				}
				lines := strings.Split(strings.TrimSpace(told.String()), "\n")
				last = lines[len(lines)-1]
			}
			found, code := h.examined(t)
			if line := found[test.check]; !strings.Contains(line, test.want) || !strings.Contains(line, test.remedy) {
				t.Errorf("doctor says %q, want %q and %q; serve says %q", line, test.want, test.remedy, last)
			}
			if code != 4 {
				t.Errorf("exit code %d, want 4", code)
			}
			checkRemedies(t, found)
			tryRemedy(t, h, found[test.check])
		})
	}
}

// tryRemedy runs the command of a line of the doctor as an operator pastes it. A remedy that changes something
// ends the failure.
func tryRemedy(t *testing.T, h *house, line string) {
	t.Helper()
	remedy := line[strings.LastIndex(line, "; ")+2:]
	if colon := strings.LastIndex(remedy, ": "); colon >= 0 {
		remedy = remedy[colon+2:]
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", remedy)
	cmd.Env = append(os.Environ(), "BATON_CONFIG="+h.config)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code == 126 || code == 127 || strings.HasPrefix(remedy, "chmod ") && code != 0 {
		t.Errorf("%s ends with %d: %s", remedy, code, out)
	}
	if strings.HasPrefix(remedy, "chmod ") {
		check, _, _ := strings.Cut(strings.TrimPrefix(line, "FAIL "), ": ")
		if found, _ := h.examined(t); !strings.HasPrefix(found[check], "ok ") {
			t.Errorf("after %s the doctor says %q", remedy, found[check])
		}
	}
}

func TestDoctorRepeatsTheLastErrorOfAStoppedGateway(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	says := func() string {
		t.Helper()
		cmd := h.plain(t, "doctor")
		var told strings.Builder
		cmd.Stderr = &told
		_ = cmd.Run() // 4
		return told.String()
	}
	h.start(t)
	h.stop(t)
	if got := says(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "baton: doctor: the gateway is down: ") || !strings.HasSuffix(got, "; its log has no error\n") {
		t.Errorf("without an error it says %q", got)
	}
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", h.public)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := h.plain(t, "serve").Run(); err == nil {
		t.Fatal("it starts")
	}
	if got := says(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "; the last error in its log: 20") || !strings.Contains(got, "address already in use") {
		t.Errorf("it says %q", got)
	}
}
