package airc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestHandshakeHidesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	if status, answer, err := scout.Send(t.Context(), "planner", "two\nlines\x1b[31m\u2028\u200b\U000E0069\U000E0067", nil); err != nil || status != http.StatusAccepted {
		t.Fatal(status, answer, err)
	}
	asked := inboxOf(t, planner)
	if len(asked) != 1 || !strings.Contains(asked[0], "\ntwo\nlines[31m \n</external_message>") {
		t.Errorf("it says %q", asked)
	}
}

// inboxOf returns the bodies in the inbox of an agent.
func inboxOf(t *testing.T, agent *bridgetest.Agent) (bodies []string) {
	t.Helper()
	for _, m := range inbox(t, agent) {
		bodies = append(bodies, m.Body)
	}
	return bodies
}
