//go:build interop

package main_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// crash kills the gateway and starts it again.
func (w *world) crash(t *testing.T) {
	t.Helper()
	w.kill(t)
	w.start(t)
	w.ready(t)
}

func TestCrashBetweenStepsLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.offer(t)
	w.crash(t)
	_, cursor := w.greet(t)
	w.crash(t)
	w.read(t, &s, cursor)
	replies, seen := s.replies(), map[string]bridgetest.IRCMessage{}

	text, accepted := w.answer(t, replies[0])
	w.crash(t)
	seen["accept"] = nextStep(t, w.alice, "accept", s.id)
	again := post(t, w.scout, text)
	if again.Status != http.StatusConflict || again.Error != "duplicate_message" || !strings.Contains(again.Message, "same bytes") {
		t.Errorf("the same message again is answered %+v", again)
	}

	_, progressed := w.answer(t, replies[1])
	seen["progress"] = nextStep(t, w.alice, "progress", s.id)
	w.crash(t)

	_, completed := w.answer(t, replies[2])
	w.crash(t)
	seen["complete"] = nextStep(t, w.alice, "complete", s.id)
	want := map[string]string{"accept": accepted, "progress": progressed, "complete": completed}
	for verb, m := range seen {
		if m.Tags[vendor+"eventid"] != want[verb] {
			t.Errorf("%s was answered with event %s and seen as %s", verb, want[verb], m.Tags[vendor+"eventid"])
		}
		if err := verify(m.Tags, channel); err != nil {
			t.Error(err)
		}
	}
	checkNothingTwice(t, w, s, seen)
}

// checkNothingTwice ends the gateway and checks all recipients: a step may have
// been written again, as the same message; its line may not, and a message to
// the agent may not.
func checkNothingTwice(t *testing.T, w *world, s session, seen map[string]bridgetest.IRCMessage) {
	t.Helper()
	messages, _ := inbox(t, w.scout, "")
	var kinds []string
	for _, m := range messages {
		kinds = append(kinds, m.Payload.Type)
	}
	if diff := cmp.Diff([]string{"system:handshake_request", "task:request"}, kinds); diff != "" {
		t.Errorf("inbox of the agent (-want +got):\n%s", diff)
	}
	if code := w.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	w.fence(t)
	checkWrittenAgain(t, w, s, seen)
	told := map[string]int{}
	for _, line := range lines(w.bob) {
		told[line]++
		if told[line] > 1 {
			t.Errorf("%d times: %s", told[line], line)
		}
	}
	for _, words := range []string{"alice offers", "scout_7 reports progress"} {
		if !slices.ContainsFunc(w.bob.Received(), isLine(s.id, words)) {
			t.Errorf("no line says that %s", words)
		}
	}
}

func TestCrashKeepsPendingDeliveries(t *testing.T) {
	t.Parallel()
	w, cable := newWiredWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	if code := w.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	w.net.Stop()
	cable.set(&cable.cut, true) // until a client is there to watch
	w.start(t)
	if status, body := w.ask(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"link lab: down"`) {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	if status, _ := w.ask(t, "/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d", status)
	}
	_, eventID := w.answer(t, s.replies()[0])

	if err := w.net.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	alice, bob := w.net.join(t, "alice", "message-tags"), w.net.join(t, "bob")
	cable.set(&cable.cut, false)
	if m := nextStep(t, alice, "accept", s.id); m.Tags[vendor+"eventid"] != eventID {
		t.Errorf("event %s arrived, want %s", m.Tags[vendor+"eventid"], eventID)
	}
	next(t, bob, "the accept's line", isLine(s.id, "scout_7 accepts"))
	w.ready(t)
}

func TestCrashRepeatsAnUnprovenStepWithItsID(t *testing.T) {
	t.Parallel()
	w, cable := newWiredWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	replies := s.replies()
	w.answer(t, replies[0])
	await(t, "all to be delivered and proved", func() bool {
		return w.counters(t)[`baton_outcomes_total{network="spanningtree",outcome="delivered"}`] == 2
	})
	cable.set(&cable.deaf, true) // the next step arrives, and the gateway never learns it
	w.answer(t, replies[1])
	first := nextStep(t, w.alice, "progress", s.id)
	w.kill(t)
	cable.set(&cable.deaf, false)
	w.start(t)
	w.ready(t)
	if diff := cmp.Diff(first, nextStep(t, w.alice, "progress", s.id)); diff != "" {
		t.Errorf("a step written again (-first +second):\n%s", diff)
	}
	if code := w.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	w.fence(t)
	told := slices.DeleteFunc(w.bob.Received(), func(m bridgetest.IRCMessage) bool { return !isLine(s.id, "scout_7 reports")(m) })
	if len(told) != 1 {
		t.Errorf("the line was written %d times", len(told))
	}
}

// Each round kills the gateway a little later after the agent began to answer, so
// that the end falls before, between and after the writes to disk. The agent
// repeats its message until it has an answer, as agents do.
func TestCrashWhileAnsweringLosesNothing(t *testing.T) {
	t.Parallel()
	const rounds, later = 10, 5 * time.Millisecond
	w := newWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	for round := range rounds {
		if round > 0 {
			s, cursor = w.offer(t), s.cursor
		}
		w.read(t, &s, cursor)
		text := write(t, w.scout, w.scout.Envelope(handleOf(w.key.did), "on it", s.replies()[0].payload))
		answered := make(chan struct{})
		go func() {
			_, _, _ = w.scout.Do(t.Context(), http.MethodPost, "/messages", text) // it may never be answered
			close(answered)
		}()
		time.Sleep(time.Duration(round) * later)
		w.kill(t)
		<-answered
		w.start(t)
		w.ready(t)
		again := post(t, w.scout, text)
		known := again.Error == "duplicate_message" && strings.Contains(again.Message, "same bytes")
		if again.Status != http.StatusCreated && !known {
			t.Fatalf("round %d: the same message again is answered %+v", round, again)
		}
		m := nextStep(t, w.alice, "accept", s.id)
		if !known && again.Handoff.EventID != m.Tags[vendor+"eventid"] {
			t.Errorf("round %d: answered with event %s and seen as %s", round, again.Handoff.EventID, m.Tags[vendor+"eventid"])
		}
		checkWrittenAgain(t, w, s, map[string]bridgetest.IRCMessage{"accept": m})
	}
}

// checkWrittenAgain checks that whatever was written again is the same message.
func checkWrittenAgain(t *testing.T, w *world, s session, seen map[string]bridgetest.IRCMessage) {
	t.Helper()
	for _, m := range w.alice.Received() {
		if m.Command == "TAGMSG" && m.Tags[vendor+"handoff-id"] == s.id {
			if diff := cmp.Diff(seen[m.Tags[vendor+"handoff"]], m); diff != "" {
				t.Errorf("a step written again (-first +second):\n%s", diff)
			}
		}
	}
}
