package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
)

// If the clock is far ahead of the last confirmed time, nothing expires until the operator confirms
// it.
func TestClockInDoubtExpiresNothingUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "[retention]\nunanswered = \"1s\"\n")
	h.start(t)
	ada, bob := logIn(t, h.url()), logIn(t, h.url())
	mark := filepath.Join(h.dir, "data", "clock")
	await(t, "the confirmed time to be noted", func() bool {
		text, err := os.ReadFile(mark)
		at, failed := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
		return err == nil && failed == nil && time.Since(at) < time.Minute
	})
	h.stop(t)
	if err := os.WriteFile(mark, []byte(time.Now().Add(-48*time.Hour).UTC().Format(time.RFC3339)), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start(t)
	h.ready(t)
	id := ada.offer(t, map[string]any{"title": "open", "to": string(bob.did)})
	state := func() string {
		var shown admin.Handoff
		h.asks(t, &shown, "handoff", "show", id)
		return string(shown.State)
	}
	time.Sleep(1500 * time.Millisecond) // the offer has expired by the wall clock
	if got := state(); got != "offered" {
		t.Errorf("the offer is %s", got)
	}
	found, _ := h.examined(t)
	if want := "; run timedatectl set-ntp true, or compare it with another clock and run: baton clock accept --reason compared"; !strings.HasPrefix(found["clock"], "warn clock: it is 48h") || !strings.HasSuffix(found["clock"], want) {
		t.Errorf("the doctor says %q", found["clock"])
	}
	if n := h.counters(t)["baton_clock_unconfirmed"]; n != 1 {
		t.Errorf("baton_clock_unconfirmed is %v", n)
	}
	ada.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": string(bob.did), "text": "still served"}, nil)

	var done admin.Acted
	if h.asks(t, &done, "clock", "accept", "--dry-run"); done.Changed != 1 || !done.DryRun {
		t.Errorf("the dry run is %+v", done)
	}
	if h.asks(t, &done, "clock", "accept", "--reason", "compared with a watch"); done.Changed != 1 {
		t.Errorf("accepted: %+v", done)
	}
	await(t, "the offer to expire", func() bool { return state() == "expired" })
	if found, _ := h.examined(t); !strings.HasPrefix(found["clock"], "ok clock: ") {
		t.Errorf("then the doctor says %q", found["clock"])
	}
	if h.asks(t, &done, "clock", "accept", "--reason", "again"); done.Changed != 0 {
		t.Errorf("accepted again: %+v", done)
	}
	var audit struct{ Items []admin.Change }
	h.asks(t, &audit, "audit", "list")
	if got := fmt.Sprint(audit.Items[1].What, ": ", audit.Items[1].Reason); len(audit.Items) != 2 || got != "clock accept: compared with a watch" {
		t.Errorf("the audit log has %+v", audit.Items)
	}
}
