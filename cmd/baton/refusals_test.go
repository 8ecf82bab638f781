//go:build interop

package main_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// account is the counters and the log of a gateway at one moment.
type account struct {
	counters map[string]float64
	lines    int
}

func (w *world) account(t *testing.T) account {
	t.Helper()
	return account{counters: w.counters(t), lines: len(w.logged(t))}
}

// since returns which counters of refusals, unreadable input and filed steps
// moved, and by how much, and how many lines were logged.
func (w *world) since(t *testing.T, before account) (moved map[string]float64, logged []map[string]any) {
	t.Helper()
	moved = map[string]float64{}
	for series, value := range w.counters(t) {
		counts := strings.HasPrefix(series, "baton_refusals_total") || strings.HasPrefix(series, "baton_bad_input_total") ||
			strings.HasPrefix(series, "baton_events_total") && strings.Contains(series, `outcome="filed"`)
		if counts && value != before.counters[series] {
			moved[series] = value - before.counters[series]
		}
	}
	return moved, w.logged(t)[before.lines:]
}

// changed returns tags of which some are others.
func changed(tags map[string]string, names ...string) map[string]string {
	other := maps.Clone(tags)
	for i := 0; i < len(names); i += 2 {
		other[vendor+names[i]] = names[i+1]
	}
	return other
}

func TestRefusalOnIRCIsReportedLoggedAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mallory := newPerson(t)
	open := w.offer(t)
	over := w.offer(t)
	send(t, w.alice, w.key.step(channel, "cancel", over.id))
	next(t, w.bob, "the cancel's line", isLine(over.id, "alice cancels"))
	awaitInbox(t, w.scout, "")

	forged, forgedID := w.key.offer(channel, w.scout.DID, map[string]string{"handoff-task": "one"})
	strangers, strangersID := w.key.offer(channel, w.scout.DID, map[string]string{"handoff-task": "one", "handoff-from": mallory.did})
	wrong, late := mallory.step(channel, "accept", open.id), w.key.step(channel, "cancel", over.id)
	for _, tt := range []struct {
		name    string
		tags    map[string]string
		raw     string // instead of tags
		code    string
		subject string
		ref     string
		bad     string // reason of input that could not be read
	}{
		{name: "a forged signature", tags: changed(forged, "handoff-task", "two"), code: "SIGNATURE_INVALID", subject: forgedID, ref: forgedID},
		{name: "a sender that is not the signer", tags: strangers, code: "ACTOR_MISMATCH", subject: strangersID, ref: strangersID},
		{name: "an accept by the wrong DID", tags: wrong, code: "WRONG_SENDER", subject: wrong[vendor+"eventid"], ref: open.id},
		{name: "a step after the end", tags: late, code: "TERMINAL_HANDOFF", subject: late[vendor+"eventid"], ref: over.id},
		{name: "a line that cannot be read", raw: "@+freeq.at/handoff=off\xff\xfeer TAGMSG " + channel + "\r\n", code: "INVALID_TAG", subject: "*", bad: "unreadable_tags"},
		{name: "no signature", tags: changed(forged, "sig", ""), code: "NEED_SIGNATURE", subject: forgedID, ref: forgedID},
		{name: "an unknown verb", tags: changed(forged, "handoff", "fly"), code: "UNKNOWN_VERB", subject: forgedID, ref: forgedID},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := w.account(t)
			if tt.raw == "" {
				send(t, w.alice, tt.tags)
			} else if err := w.alice.SendRaw([]byte(tt.raw)); err != nil {
				t.Fatal(err)
			}
			m := next(t, w.alice, "the refusal", func(m bridgetest.IRCMessage) bool { return m.Command == "NOTICE" && m.Params[0] == "alice" })
			if !strings.HasPrefix(m.Params[1], tt.code+" "+tt.subject+" ") || m.Nick != "Baton" || m.Tags[vendor+"ref"] != tt.ref {
				t.Errorf("%s is told %q", m.Nick, m)
			}
			want := map[string]float64{`baton_refusals_total{code="` + tt.code + `",network="spanningtree"}`: 1}
			if tt.bad != "" {
				want[`baton_bad_input_total{link="lab",network="spanningtree",reason="`+tt.bad+`"}`] = 1
			}
			moved, logged := w.since(t, before)
			if diff := cmp.Diff(want, moved); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
			if len(logged) != 1 {
				t.Errorf("%d lines logged, want 1: %v", len(logged), logged)
			}
		})
	}
}

func TestRefusalOnAIRCIsReportedLoggedAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.offer(t)
	_, cursor := w.greet(t)
	w.read(t, &s, cursor)
	to, accept := handleOf(w.key.did), s.replies()[0]
	w.register(t, "amy_8")
	used := w.scout.Envelope("amy_8", "hello", nil)
	if answer := post(t, w.scout, write(t, w.scout, used)); answer.Status != http.StatusAccepted {
		t.Fatalf("a plain message is answered %+v", answer)
	}
	for _, tt := range []struct {
		name   string
		member string // of the envelope, before it is signed
		value  any
		forge  bool
		status int
		code   string
		bad    string // reason of a body that could not be read
	}{
		{name: "a wrong signature", forge: true, status: 401, code: "invalid_signature"},
		{name: "another audience", member: "aud", value: "other.example", status: 403, code: "audience_mismatch"},
		{name: "a key that is nobody's", member: "kid", value: "k_0123456789abcdef", status: 401, code: "invalid_signature"},
		{name: "a timestamp ten minutes ago", member: "timestamp", value: time.Now().Add(-10 * time.Minute).Unix(), status: 401, code: "invalid_timestamp"},
		{name: "a timestamp ten minutes ahead", member: "timestamp", value: time.Now().Add(10 * time.Minute).Unix(), status: 401, code: "invalid_timestamp"},
		{name: "an id twice", member: "id", value: used["id"], status: 409, code: "duplicate_message"},
		{name: "a body of one MiB", member: "body", value: strings.Repeat("x", 1<<20), status: 413, code: "payload_too_large", bad: "size"},
		{name: "a handoff that nobody knows", member: "payload", value: payload("ack", map[string]any{"replyTo": ulid.Make().String(), "status": "received"}), status: 404, code: "unknown_handoff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			envelope := w.scout.Envelope(to, "on it", accept.payload)
			if tt.member != "" {
				envelope[tt.member] = tt.value
			}
			text := write(t, w.scout, envelope)
			if tt.forge {
				text = []byte(strings.Replace(string(text), `"body":"on it"`, `"body":"not I"`, 1))
			}
			before := w.account(t)
			answer := post(t, w.scout, text)
			if answer.Status != tt.status || answer.Error != tt.code || answer.Message == "" {
				t.Errorf("answered %+v, want %d %s", answer, tt.status, tt.code)
			}
			want := map[string]float64{`baton_refusals_total{code="` + tt.code + `",network="airc"}`: 1}
			if tt.bad != "" {
				want[`baton_bad_input_total{link="airc",network="airc",reason="`+tt.bad+`"}`] = 1
			}
			moved, logged := w.since(t, before)
			if diff := cmp.Diff(want, moved); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
			if len(logged) != 1 {
				t.Errorf("%d lines logged, want 1: %v", len(logged), logged)
			}
		})
	}
	w.answer(t, accept) // nothing above took a step
}
