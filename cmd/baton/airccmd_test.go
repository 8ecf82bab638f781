package main_test

import (
	"bytes"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// checked runs config check, and returns its output and exit code.
func (h *house) checked(t *testing.T) (told string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "--config", h.config, "config", "check")
	out, err := cmd.CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case failed:
		code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return string(out), code
}

func TestUnsignedPeerNeedsNetworksAndIsWarnedOf(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	const peer = "[[airc.peers]]\ndomain = \"peer.test\"\nunsigned = \"allow\"\n"
	h.configure(t, peer)
	if told, code := h.checked(t); code != 1 || !strings.Contains(told, "peer.test: \"allow\" needs networks") {
		t.Errorf("config check: exit code %d, %s", code, told)
	}
	h.configure(t, peer+"client_ca = \"peer.pem\"\n")
	if told, code := h.checked(t); code != 1 || !strings.Contains(told, "peer.test: requires http.tls") {
		t.Errorf("config check of client_ca without TLS: exit code %d, %s", code, told)
	}
	h.configure(t, peer+"networks = [\"192.0.2.0/24\"]\n")
	if told, code := h.checked(t); code != 0 {
		t.Errorf("config check with networks: exit code %d, %s", code, told)
	}
	h.start(t)
	h.ready(t)
	found, _ := h.examined(t)
	want := "warn unsigned peer.test: its unsigned relays from 192.0.2.0/24 take steps as its agents; have it sign its relays, set unsigned = \"hold\", and run: baton reload"
	if got := found["unsigned peer.test"]; got != want {
		t.Errorf("doctor: %q, want %q", got, want)
	}
}

func TestAircReleaseGivesHandleToNextCaller(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	register := func() (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url()+"/api/presence", strings.NewReader(`{"action":"register","username":"scout_7"}`))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var text bytes.Buffer
		_, _ = text.ReadFrom(response.Body)
		return response.StatusCode, text.String()
	}
	if status, body := register(); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	if status, body := register(); status != http.StatusConflict || !strings.Contains(body, "baton airc release HANDLE") {
		t.Errorf("registered twice: %d %s", status, body)
	}
	out, err := exec.CommandContext(t.Context(), program, "--config", h.config, "airc", "release", "scout_7", "--reason", "lost its key").Output()
	if want := "scout_7 is released: its keys, sessions and webhooks have ended, and it may be registered again\n"; err != nil || string(out) != want {
		t.Errorf("airc release prints %q, %v, want %q", out, err, want)
	}
	var audit struct {
		Items []struct{ What, Subject, Reason string }
	}
	h.asks(t, &audit, "audit", "list")
	if len(audit.Items) != 1 || audit.Items[0].What != "airc release" || audit.Items[0].Subject != "scout_7" || audit.Items[0].Reason != "lost its key" {
		t.Errorf("audit %+v", audit)
	}
	if status, body := register(); status != http.StatusCreated {
		t.Errorf("registered after the release: %d %s", status, body)
	}
}
