//go:build interop

package main_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

func TestLookupsOfFreeqUsersAtASilentHostDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t, fmt.Sprintf("[identity]\nplc_url = \"http://%s\"\n", newSilent(t).addr))
	for i := range 20 {
		name := string(rune('a' + i))
		mallory := w.server.Join("mallory"+name, federation.DID("did:plc:"+strings.Repeat(name, 24)), seeded("mallory"))
		if _, err := mallory.Offer(channel, "", "slow"); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	id := w.offer(t, "", "quick")
	within(t, "a step of another user", othersWait, begun, func() bool { return logged(t, w.house, id) == "filed" })
	w.server.Cut()
	within(t, "the link to be up again", relinkWait, time.Now(), func() bool { return w.server.AwaitLink(patient(t)) == nil })
	stopped := time.Now()
	if code := w.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(stopped); took > stopWait {
		t.Errorf("SIGTERM took %s", took)
	}
}

// logged returns the outcome of a handoff's offer from the log.
func logged(t *testing.T, h *house, of federation.HandoffID) string {
	t.Helper()
	return (&square{house: h}).outcome(t, federation.Event{Handoff: of})
}
