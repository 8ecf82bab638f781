//go:build interop

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/bridge/bridgetest"
)

// newsOf returns the texts that one handle wrote to an agent.
func newsOf(t *testing.T, a *bridgetest.Agent, from string) []string {
	t.Helper()
	return slices.DeleteFunc(texts(t, a), func(text string) bool { return !strings.HasPrefix(text, from+": ") })
}

func TestAPersonAndAnAgentOfAnotherRegistryConverse(t *testing.T) {
	t.Parallel()
	a, far := newHouse(t), newHouse(t)
	b := talkativeIn(t, a, fmt.Sprintf("[airc]\ndomain = \"a.test\"\n[[airc.peers]]\ndomain = \"b.test\"\nurl = %q\n", far.url()))
	registryOf(t, far, "b.test", a, "a.test")
	far.start(t)
	amy := resident(t, far, "amy_1", 9)
	b.tellBaton(t, "say scout_7 hello scout", "Your message to scout_7") // which gives alice a handle
	alice := b.asker(t, "hello scout") + "@a.test"

	if status, answer, err := amy.Send(t.Context(), alice, "are you there?", nil); err != nil || status != http.StatusAccepted {
		t.Fatalf("amy writes: %d %v %v", status, answer, err)
	}
	m := b.labReads(t, "alice", "are you there?")
	b.lab.Say("alice", "PRIVMSG "+m.Source+" :line 0")
	await(t, "the answer", func() bool { return len(newsOf(t, amy, alice)) == 1 })

	// Both are killed in turn while lines wait for the other registry.
	far.kill(t)
	want := []string{alice + ": line 0"}
	for n := 1; n <= 3; n++ {
		line := fmt.Sprintf("line %d", n)
		b.lab.Say("alice", "PRIVMSG "+m.Source+" :"+line)
		want = append(want, alice+": "+line)
		await(t, line+" on disk", func() bool { return b.counters(t)[`baton_relay_rows{peer="b.test"}`] == float64(n) })
	}
	b.kill(t)
	b.start(t)
	far.start(t)
	await(t, "all lines", func() bool { return len(newsOf(t, amy, alice)) >= len(want) })
	if diff := cmp.Diff(want, newsOf(t, amy, alice)); diff != "" {
		t.Errorf("what amy reads (-want +got):\n%s", diff)
	}
	b.ready(t)

	// The block of alice is the outcome that amy sees.
	b.tellBaton(t, "block amy_1@b.test", "amy_1@b.test can no longer write to you")
	if status, answer, err := amy.Send(t.Context(), alice, "once more", nil); err != nil || status != http.StatusAccepted {
		t.Fatalf("amy writes: %d %v %v", status, answer, err)
	}
	await(t, "the refusal", func() bool {
		raws, _, err := amy.Inbox(t.Context(), "")
		return err == nil && slices.ContainsFunc(raws, func(raw json.RawMessage) bool { return strings.Contains(string(raw), "undeliverable") })
	})
}
