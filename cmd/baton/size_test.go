//go:build interop

package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A server leaves out, without a word, the tags of a message with a byte too
// many of them, and the step would arrive without its signature. The search ends
// at the very byte.
func TestSizeOfAResultIsWholeOrByReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	w.answer(t, s.replies()[0])
	whole, referred := 0, 4096
	for referred-whole > 1 {
		size := (whole + referred) / 2
		if w.results(t, s, size) {
			whole = size
		} else {
			referred = size
		}
	}
	if whole < 2048 {
		t.Errorf("no more than %d bytes arrive in the tags", whole)
	}
	for _, size := range []int{1, 4096, 20_000, 60_000} {
		if inTags := w.results(t, s, size); inTags != (size < 2048) {
			t.Errorf("%d bytes are in the tags: %v", size, inTags)
		}
	}
}

// results has the agent report so many bytes, which must reach IRC whole, and tells
// whether the tags have them.
func (w *world) results(t *testing.T, s session, size int) (inTags bool) {
	t.Helper()
	list := strings.Repeat("x", size)
	text := write(t, w.scout, w.scout.Envelope(handleOf(w.key.did), "more", payload("task:result", map[string]any{
		"requestId": s.message, "status": "partial", "result": map[string]any{"note": "a; b", "list": list},
	})))
	answer := post(t, w.scout, text)
	m := nextStep(t, w.alice, "progress", s.id)
	if err := verify(m.Tags, channel); err != nil {
		t.Fatalf("%d bytes: %v", size, err)
	}
	if len(answer.Handoff.Lost) > 0 {
		t.Errorf("%d bytes: lost %v", size, answer.Handoff.Lost)
	}
	context, want := m.Tags[vendor+"handoff-context"], `{"list":"`+list+`"}`
	if context == want {
		return true
	}
	status, content := get(t, context)
	if status != http.StatusOK || content != want {
		t.Errorf("%d bytes: %s answers %d, %d bytes", size, context, status, len(content))
	}
	sum := sha256.Sum256([]byte(want))
	if got := m.Tags[vendor+"handoff-context-h"]; got != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes: the hash is %q", size, got)
	}
	return false
}

func TestSizeOfABurstOfOffers(t *testing.T) {
	t.Parallel()
	const burst = 55 // more than a page of the inbox
	w := newWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	var want, got []string
	for range burst {
		tags, id := w.key.offer(channel, w.scout.DID, map[string]string{"handoff-task": "one of many"})
		send(t, w.alice, tags)
		want = append(want, id)
	}
	for cursor = s.cursor; len(got) < burst; {
		var messages []message
		messages, cursor = awaitInbox(t, w.scout, cursor)
		for _, m := range messages {
			got = append(got, handoffOf(t, m))
		}
	}
	slices.Sort(want)
	slices.Sort(got) // handoffs do not wait for one another
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offers (-sent +read):\n%s", diff)
	}
	await(t, "a line for each", func() bool { return len(lines(w.bob)) == burst+1 })
	for _, id := range want {
		next(t, w.bob, "the line of "+id, isLine(id, "alice offers scout_7: one of many"))
	}
}

func handoffOf(t *testing.T, m message) string {
	t.Helper()
	var data struct {
		Handoff struct{ ID string }
	}
	if err := json.Unmarshal(m.Payload.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data.Handoff.ID
}
