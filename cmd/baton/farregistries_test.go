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

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// newsOf returns the texts that one handle wrote to an agent.
func newsOf(t *testing.T, a *bridgetest.Agent, from string) []string {
	t.Helper()
	return slices.DeleteFunc(texts(t, a), func(text string) bool { return !strings.HasPrefix(text, from+": ") })
}

// besideRegistry returns a gateway whose registry is a.test, and a registry b.test. Each names the other.
func besideRegistry(t *testing.T) (b *talkative, far *house) {
	t.Helper()
	a, far := newHouse(t), newHouse(t)
	b = talkativeIn(t, a, fmt.Sprintf("[airc]\ndomain = \"a.test\"\n[[airc.peers]]\ndomain = \"b.test\"\nurl = %q\n", far.url()))
	registryOf(t, far, "b.test", a, "a.test")
	far.start(t)
	return b, far
}

func TestFarRegistryConversation(t *testing.T) {
	t.Parallel()
	b, far := besideRegistry(t)
	amy := resident(t, far, "amy_1", 9)
	b.tellBaton(t, "say scout_7 hello scout", "Your message to scout_7") // which gives alice a handle
	alice := b.asker(t, "hello scout") + "@a.test"

	if status, answer, err := amy.Send(t.Context(), alice, "are you there?", nil); err != nil || status != http.StatusAccepted {
		t.Fatalf("amy writes: %d %v %v", status, answer, err)
	}
	m := b.labReads(t, "alice", "are you there?")
	b.lab.Say("alice", "PRIVMSG "+m.Source+" :line 0")
	await(t, "the answer", func() bool { return len(newsOf(t, amy, alice)) == 1 })
	waiting := func() float64 { return b.counters(t)[`baton_relay_rows{peer="b.test"}`] }
	await(t, "the receipt of the answer", func() bool { return waiting() == 0 })

	// Both are killed in turn while lines wait for the other registry.
	far.kill(t)
	want := []string{alice + ": line 0"}
	for n := 1; n <= 3; n++ {
		line := fmt.Sprintf("line %d", n)
		b.lab.Say("alice", "PRIVMSG "+m.Source+" :"+line)
		want = append(want, alice+": "+line)
		await(t, line+" on disk", func() bool { return waiting() == float64(n) })
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

// No agent of the other registry has written here before.
func TestFarRegistryFirstContact(t *testing.T) {
	t.Parallel()
	b, far := besideRegistry(t)
	amy, ben := resident(t, far, "amy_1", 9), resident(t, far, "ben_1", 10)

	var sent struct{ To string }
	b.http.must(t, http.StatusAccepted, http.MethodPost, "messages", map[string]any{"to": "amy_1@b.test", "text": "from REST"}, &sent)
	admits(t, amy, "from REST")
	b.tellBaton(t, "say amy_1@b.test from IRC", "Your message to amy_1@b.test is on its way.")
	admits(t, amy, "from IRC")
	id := b.http.offer(t, map[string]any{"to": sent.To, "title": "Paint the ship"})
	acceptsOffer(t, amy, "Paint the ship")
	await(t, "the accept", func() bool { return b.http.readsStep(t, id, "accept") })

	b.bound(t, "fq", string(b.finn.DID), b.finn.DID)
	b.settled(t, b.finn)
	b.finn.Tell("Baton-gw", "offer ben_1@b.test Count the ships")
	admits(t, ben, "")
	acceptsOffer(t, ben, "Count the ships")
	if _, err := b.freeq.AwaitLine(patient(t), "the accept", func(m map[string]any) bool {
		text, _ := m["text"].(string)
		return m["target"] == "finn" && strings.HasSuffix(text, " accepts: Count the ships")
	}); err != nil {
		t.Fatal(err)
	}

	for _, unknown := range []string{"amy_9@b.test", "amy_1@c.test", "amy_1@nowhere"} {
		b.write(t, unknown, "hello", http.StatusNotFound)
	}
	far.kill(t)
	b.write(t, "amy_8@b.test", "hello", http.StatusServiceUnavailable)
	b.write(t, "amy_1@b.test", "hello", http.StatusAccepted) // it is known, so that the text waits
}

// admits has an agent accept the sender that asks with a text.
func admits(t *testing.T, a *bridgetest.Agent, text string) {
	t.Helper()
	var asked message
	await(t, "a request with "+text, func() bool {
		asked = message{}
		for _, m := range received(t, a) {
			if m.Payload.Type == "system:handshake_request" && strings.Contains(string(m.Payload.Data), text) {
				asked = m
			}
		}
		return asked.Payload.Type != ""
	})
	consent(t, a, requesterOf(t, asked))
}

// acceptsOffer has an agent accept an offer, after it arrived.
func acceptsOffer(t *testing.T, a *bridgetest.Agent, title string) {
	t.Helper()
	await(t, title, func() bool {
		all := received(t, a)
		i := slices.IndexFunc(all, stepLine{"offer", title, ""}.isIn)
		if i < 0 {
			return false
		}
		if status, answer, err := a.Send(t.Context(), all[i].From, "", aircStep(about(all[i]).ID, "accept", "")); err != nil || status != http.StatusAccepted {
			t.Fatalf("accept %s: %d %v %v", title, status, answer, err)
		}
		return true
	})
}

func received(t *testing.T, a *bridgetest.Agent) []message {
	t.Helper()
	messages, _ := inbox(t, a, "")
	return messages
}

// readsStep reports whether the inbox of a caller has a step of a handoff.
func (c *caller) readsStep(t *testing.T, id, verb string) bool {
	t.Helper()
	var page struct{ Items []arrived }
	c.must(t, http.StatusOK, http.MethodGet, "inbox?limit=500", nil, &page)
	return slices.ContainsFunc(page.Items, func(e arrived) bool { return e.Step.Verb == verb && e.Step.HandoffID == id })
}
