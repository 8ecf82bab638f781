package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// registryOf makes a house the registry of a domain that exchanges messages with
// another one.
func registryOf(t *testing.T, h *house, domain string, other *house, otherDomain string) {
	t.Helper()
	h.configure(t, fmt.Sprintf(`[fetch]
allow_private = true
[airc]
domain = %q
[[airc.peers]]
domain = %q
url = %q
`, domain, otherDomain, other.url()))
}

func resident(t *testing.T, h *house, handle string, seed byte) *bridgetest.Agent {
	t.Helper()
	key := make([]byte, 32)
	key[0] = seed
	a := bridgetest.NewAgent(h.url(), handle, key)
	if err := a.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func texts(t *testing.T, a *bridgetest.Agent) []string {
	t.Helper()
	raws, _, err := a.Inbox(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, raw := range raws {
		var m struct{ From, Body string }
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		if m.From != "system" {
			all = append(all, m.From+": "+m.Body)
		}
	}
	return all
}

func TestFederationOfTwoGatewaysAsRegistries(t *testing.T) {
	t.Parallel()
	a, b := newHouse(t), newHouse(t)
	registryOf(t, a, "a.test", b, "b.test")
	registryOf(t, b, "b.test", a, "a.test")
	a.start(t)
	b.start(t)
	scout, amy := resident(t, a, "scout_7", 1), resident(t, b, "amy_1", 2)
	var want []string
	send := func(from *bridgetest.Agent, to, text string) {
		t.Helper()
		if status, answer, err := from.Send(t.Context(), to, text, nil); err != nil || status != http.StatusAccepted || answer["status"] != "queued" {
			t.Fatalf("%s: %d %v %v", text, status, answer, err)
		}
	}
	send(amy, "scout_7@a.test", "hello") // and so amy accepts messages from scout
	await(t, "first contact", func() bool {
		raws, _, err := scout.Inbox(t.Context(), "")
		return err == nil && len(raws) == 1
	})
	if status, answer, err := scout.Consent(t.Context(), "amy_1@b.test", "accept"); err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	if diff := cmp.Diff([]string{"amy_1@b.test: hello"}, texts(t, scout)); diff != "" {
		t.Errorf("what was held (-want +got):\n%s", diff)
	}
	for n := range 4 {
		if n == 1 {
			b.kill(t) // cut off
		}
		want = append(want, "scout_7@a.test: "+strconv.Itoa(n))
		send(scout, "amy_1@b.test", strconv.Itoa(n))
		if n == 0 {
			await(t, "the decision and the first to be confirmed", func() bool {
				return a.counters(t)[`baton_relay_attempts_total{outcome="delivered",peer="b.test"}`] == 2
			})
			if diff := cmp.Diff(want, texts(t, amy)); diff != "" {
				t.Errorf("the first (-want +got):\n%s", diff)
			}
		}
	}
	await(t, "the queue in the metrics", func() bool {
		got := a.counters(t)
		return got[`baton_relay_rows{peer="b.test"}`] == 3 && got[`baton_relay_oldest_seconds{peer="b.test"}`] > 0
	})
	a.kill(t) // restarted with pending deliveries
	b.start(t)
	a.start(t)
	await(t, "what was sent meanwhile", func() bool { return len(texts(t, amy)) >= len(want) })
	if diff := cmp.Diff(want, texts(t, amy)); diff != "" {
		t.Errorf("what arrived (-want +got):\n%s", diff)
	}
	for _, h := range []*house{a, b} {
		if code := h.stop(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	}
}
