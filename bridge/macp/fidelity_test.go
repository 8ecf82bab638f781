package macp_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/translatetest"
)

// told is a session with a text of its own in each member, and its filed form.
type told struct {
	text   func(member string) string
	sent   map[string]*macpv1.Envelope // by the ID of the message
	steps  []federation.Event
	stream []string
}

// tell plays a session in which each member has a text that no other one has. The target declines
// or accepts; after an accept it completes or fails the work.
func tell(t *testing.T, w *world, n int) told {
	t.Helper()
	salt := rapid.StringMatching(`[a-zà-ý]{1,20}`).Example(n)
	s := told{text: func(member string) string { return member + " " + salt }, sent: map[string]*macpv1.Envelope{}}
	before := len(w.gateway.filed())
	say := func(kind, id, sender string, payload proto.Message) {
		env := envelope(t, session(n), kind, id, sender, payload)
		if kind == macpmode.TypeSignal {
			env.SessionId, env.Mode = "", ""
		}
		if ack := w.send(t, env); !ack.GetOk() {
			t.Fatalf("%s: %v", id, ack)
		}
		s.sent[id] = env
	}
	carry, err := json.Marshal(macpmode.Carry{V: 1, Caps: []string{capOf(n)}, Priority: priorityOf(n), Replaces: federation.EventID{byte(n + 1)}.String()})
	if err != nil {
		t.Fatal(err)
	}
	say(macpmode.TypeSessionStart, "start", "owner", &macpv1.SessionStartPayload{
		Intent: s.text("intent"), Participants: []string{"owner", "target"}, ModeVersion: "1.0.0", ConfigurationVersion: "c", TtlMs: 600_000,
		Roots: []*macpv1.Root{{Uri: "urn:root", Name: s.text("root")}}, ContextId: s.text("context_id"), Extensions: map[string][]byte{macpmode.CarryExtension: carry},
	})
	say(macpmode.TypeOffer, "offer", "owner", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: "target", Scope: s.text("scope"), Reason: s.text("reason")})
	say(macpmode.TypeContext, "context", "owner", &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "application/json", Context: []byte(`{"k":"` + s.text("context") + `"}`)})
	say(macpmode.TypeContext, "later", "owner", &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "text/plain", Context: []byte(s.text("later"))})
	want := before + 2
	if n%3 == 0 {
		say(macpmode.TypeDecline, "answer", "target", &handoffv1.HandoffDeclinePayload{HandoffId: "h1", Reason: s.text("answer")})
	} else {
		say(macpmode.TypeAccept, "answer", "target", &handoffv1.HandoffAcceptPayload{HandoffId: "h1", Reason: s.text("answer")})
	}
	await(t, "the answer to be filed", func() bool { return len(w.gateway.filed()) == want })
	if n%3 != 0 {
		verb := []string{"", "complete", "fail"}[n%3]
		data := fmt.Appendf(nil, `{"verb":%q,"note":%q,"result":{"sources":%q},"retryable":%t}`, verb, s.text("note"), s.text("result"), n%2 == 0)
		say(macpmode.TypeSignal, "step", "target", &macpv1.SignalPayload{SignalType: macpmode.SignalStep, Data: data, CorrelationSessionId: session(n)})
		want++
	}
	await(t, "all steps to be filed", func() bool { return len(w.gateway.filed()) == want })
	s.steps, s.stream = w.gateway.filed()[before:], follow(t, w, "owner", session(n), 0)
	return s
}

func capOf(n int) string { return fmt.Sprint("cap-", n) }

func priorityOf(n int) string { return []string{"low", "high"}[n%2] }

// evident reports whether the evidence of a step has a message of the session, byte for byte.
func (s told) evident(ev federation.Event, id string) bool {
	return ev.Evidence != nil && strings.Contains(string(ev.Evidence.Bytes), base64.StdEncoding.EncodeToString(s.sent[id].GetPayload()))
}

func anywhere(t *testing.T, ev federation.Event, text string) bool {
	t.Helper()
	ev.Evidence = nil
	written, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(written), text)
}

// places returns, for each row of the table from sessions, whether the member is in the place named
// by the row. A row without meaning for a session of this kind is left out.
func (s told) places(t *testing.T, n int) map[string]bool {
	t.Helper()
	offer, reply := s.steps[0], s.steps[1]
	lost := func(member, message string) bool {
		return s.evident(offer, message) && !anywhere(t, offer, s.text(member))
	}
	found := map[string]bool{
		"intent": offer.Title == s.text("intent"), "scope": lost("scope", "offer"), "reason": lost("reason", "offer"), "roots": lost("root", "start"),
		"context_id": lost("context_id", "start"), "expiry": offer.Deadline.Unix() == (s.sent["start"].GetTimestampUnixMs()+600_000)/1000,
		"context":            offer.Context == `{"k":"`+s.text("context")+`"}`,
		"later contexts":     !anywhere(t, offer, s.text("later")) && slices.ContainsFunc(s.stream, func(env string) bool { return strings.Contains(env, s.text("later")) }),
		"target_participant": offer.To == did("target") && reply.Actor() == did("target"),
		"extension caps":     slices.Equal(offer.Caps, []string{capOf(n)}), "extension priority": offer.Priority == priorityOf(n),
		"extension replaces": offer.Replaces == federation.EventID{byte(n + 1)}, "answer reason": reply.Note == s.text("answer"),
	}
	if n%3 != 0 {
		var context struct {
			Result    struct{ Sources string } `json:"result"`
			Retryable *bool                    `json:"retryable"`
		}
		step := s.steps[2]
		if err := json.Unmarshal([]byte(step.Context), &context); err != nil {
			t.Fatalf("%s: %v", step.Context, err)
		}
		found["step note"], found["step result"] = step.Note == s.text("note"), context.Result.Sources == s.text("result")
		found["step retryable"] = context.Retryable != nil && *context.Retryable == (n%2 == 0)
	}
	return found
}

// Each member of a session is in its place in the table, in the steps that the
// runtime files.
func TestFidelityTableCoversEachMember(t *testing.T) {
	t.Parallel()
	w, seen := newWorld(t, "owner", "target"), map[string]int{}
	const sessions = 12
	for n := range sessions {
		s := tell(t, w, n)
		for field, holds := range s.places(t, n) {
			if seen[field]++; !holds {
				t.Errorf("session %d: %s is not where the table says: %+v", n, field, s.steps)
			}
		}
	}
	for _, row := range translatetest.MACPFidelity() {
		if row.Way == translatetest.In && seen[row.Field] < sessions/2 {
			t.Errorf("%s is in the table, and %d sessions had it", row.Field, seen[row.Field])
		}
	}
}
