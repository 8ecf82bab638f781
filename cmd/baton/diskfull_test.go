package main_test

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// A process whose files may not grow has a full disk.
func TestDiskFullIsReportedAndRecovered(t *testing.T) {
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	agents := map[string]*bridgetest.Agent{}
	for i, name := range []string{"scout", "judge"} {
		agents[name] = bridgetest.NewAgent(h.url(), name, append(make([]byte, 31), byte(i)))
		if err := agents[name].Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := agents["scout"].Sign(agents["scout"].Envelope("judge", "hello", nil))
	if err != nil {
		t.Fatal(err)
	}

	room := limitFiles(t, h, 1)
	if status, body := h.ask(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "record: ") {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	if status, _ := h.ask(t, "/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d", status)
	}
	status, answer, err := agents["scout"].Post(t.Context(), text)
	if err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("a message is answered %d %v, %v, want 503", status, answer, err)
	}
	if _, _, err := agents["judge"].Inbox(t.Context(), ""); err != nil {
		t.Errorf("what is on disk cannot be read: %v", err)
	}

	limitFiles(t, h, room)
	h.ready(t)
	if status, answer, err := agents["scout"].Post(t.Context(), text); err != nil || status != http.StatusAccepted && status != http.StatusCreated {
		t.Errorf("the same message again is answered %d %v, %v", status, answer, err)
	}
	if code := h.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// limitFiles sets how large the files of the gateway may grow, in bytes, and returns
// the limit before.
func limitFiles(t *testing.T, h *house, size uint64) (before uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(h.process.Process.Pid, unix.RLIMIT_FSIZE, nil, &old); err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: size, Max: old.Max}
	if err := unix.Prlimit(h.process.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	return old.Cur
}
