//go:build interop

package main_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// reread makes the gateway read its configuration again.
func (h *house) reread(t *testing.T, tables ...string) {
	t.Helper()
	before := strings.Count(h.told(t), "configuration reloaded")
	h.configure(t, tables...)
	h.signal(t, syscall.SIGHUP)
	await(t, "the configuration to be read again", func() bool {
		return strings.Count(h.told(t), "configuration reloaded") > before
	})
}

// refusedOnIRC sends a step of alice's and returns the code that she is told.
func (w *world) refusedOnIRC(t *testing.T, tags map[string]string) string {
	t.Helper()
	id := tags[vendor+"eventid"]
	send(t, w.alice, tags)
	m := next(t, w.alice, "the refusal", func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Params[0] == "alice" && strings.Contains(m.Params[1], " "+id+" ")
	})
	code, _, _ := strings.Cut(m.Params[1], " ")
	return code
}

func TestPolicyRefusalIsReportedOnBothNetworks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	accept := s.replies()[0]
	answered := func() filed {
		return post(t, w.scout, write(t, w.scout, w.scout.Envelope(handleOf(w.key.did), accept.verb, accept.payload)))
	}
	offered := func(change func(tags map[string]string)) string {
		tags, _ := w.key.offer(channel, w.scout.DID, map[string]string{"handoff-task": title})
		change(tags)
		return w.refusedOnIRC(t, tags)
	}
	signed, unsigned := func(map[string]string) {}, func(tags map[string]string) { delete(tags, vendor+"sig") }
	for _, test := range []struct {
		policy    string
		change    func(map[string]string)
		irc, airc string
		status    int
	}{
		{"[[policy.rules]]\nrequire = \"deny\"\n", signed, "POLICY_DENIED", "policy_denied", http.StatusForbidden},
		{"[policy]\nrequire = \"signed\"\n", unsigned, "NEED_SIGNATURE", "invalid_signature", http.StatusUnauthorized},
		{"[[policy.rules]]\nverbs = [\"accept\", \"offer\"]\npeers = [\"lab\"]\nrequire = \"deny\"\n[[policy.rules]]\npeers = [\"airc\"]\n", signed, "POLICY_DENIED", "invalid_signature", http.StatusUnauthorized},
	} {
		w.reread(t, w.net.table, test.policy)
		answer := answered()
		got := []any{offered(test.change), answer.Error, answer.Status}
		if diff := cmp.Diff([]any{test.irc, test.airc, test.status}, got); diff != "" {
			t.Errorf("with %s(-want +got):\n%s", test.policy, diff)
		}
	}
	w.reread(t, w.net.table)
	if answer := answered(); answer.Status != http.StatusCreated || answer.Handoff.State != "assigned" {
		t.Errorf("without a policy it is answered %+v", answer)
	}
}
