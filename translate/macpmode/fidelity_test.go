package macpmode_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/translatetest"
)

// Each member of an offer of a session is in the handoff, or is reported as lost, as the table says.
func TestFidelityOfASession(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[a-z]{0,12}( [a-z]{1,200}){0,3}`)
		start := &macpv1.SessionStartPayload{
			Intent: text.Draw(rt, "intent"), Participants: []string{"owner", "target"}, ModeVersion: "1.0.0", ConfigurationVersion: "c", TtlMs: 60_000,
			ContextId: rapid.SampledFrom([]string{"", "ctx:sha256:00"}).Draw(rt, "context_id"),
		}
		if rapid.Bool().Draw(rt, "roots") {
			start.Roots = []*macpv1.Root{{Uri: "urn:x"}}
		}
		offer := &macpmode.Offer{Scope: text.Draw(rt, "scope"), Reason: text.Draw(rt, "reason")}
		var context *handoffv1.HandoffContextPayload
		if rapid.Bool().Draw(rt, "context") {
			context = &handoffv1.HandoffContextPayload{ContentType: rapid.SampledFrom([]string{"application/json", "text/plain", ""}).Draw(rt, "type"), Context: []byte(`{"k":"v"}`)}
		}
		carry := macpmode.Carry{V: 1, Caps: []string{"go"}, Priority: "high", Replaces: federation.EventID{1}.String()}
		data, err := json.Marshal(carry)
		if err != nil {
			rt.Fatal(err)
		}
		start.Extensions = map[string][]byte{macpmode.CarryExtension: data}
		d, losses := macpmode.Describe(&macpmode.Session{Start: start, Expires: begun}, offer, context)
		if d.Title == "" || len(d.Title) > translate.MaxTitleBytes || d.Deadline.UnixMilli() != begun || d.Caps[0] != "go" || d.Priority != "high" || d.Replaces.IsZero() {
			rt.Fatalf("described as %+v", d)
		}
		if context != nil && d.Context != `{"k":"v"}` && string(d.Content) != `{"k":"v"}` {
			rt.Fatalf("the context is gone: %+v", d)
		}
		for field, there := range map[string]bool{
			"scope": strings.TrimSpace(start.Intent) != "" && offer.Scope != "" && offer.Scope != start.Intent, "reason": offer.Reason != "", "roots": len(start.Roots) > 0,
			"context_id": start.ContextId != "" && context == nil, "title": strings.TrimSpace(start.Intent) != "" && d.Title != start.Intent,
		} {
			if there && !federation.Loses(losses, field) {
				rt.Fatalf("%s is lost in silence: %v", field, losses)
			}
		}
		evident := append(translatetest.Placed(translatetest.MACPFidelity(), translatetest.In, translatetest.Evident), "title")
		for _, loss := range losses {
			if !slices.Contains(evident, loss.Field) {
				rt.Fatalf("%s is lost, and the table does not say so", loss.Field)
			}
		}
	})
}

// Each member of an offer that the table does not call lost is found in the messages of the session.
func TestFidelityOfAHandoffInItsSession(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(begun)
	view := federation.View{
		ID: federation.EventID{7}, Offerer: "did:plc:from", Offeree: "did:plc:to", Title: "the title", Caps: []string{"the cap"}, Priority: "the priority",
		Deadline: now.Add(48 * time.Hour), Replaces: federation.EventID{8}, Venue: "#channel",
	}
	ev := federation.Event{
		ID: view.ID, Context: `{"the":"context"}`, ContextHash: "the-hash", Verb: federation.Progress, Note: "the note", From: "did:plc:from",
		Signature: federation.Signature{Text: "the signature", Document: "{}"},
	}
	messages, err := macpmode.OpenOffer(ev, view, macpmode.Parties{Owner: "owner", Target: "target"}, macpmode.CarryOf(view, "transfer", ""), now)
	if err != nil {
		t.Fatal(err)
	}
	var session strings.Builder
	for _, m := range messages {
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		session.Write(text)
	}
	step, err := json.Marshal(macpmode.StepOf(ev, view, "assigned", "transfer", ""))
	if err != nil {
		t.Fatal(err)
	}
	find := map[string]string{
		"id": view.ID.String(), "title": "the title", "context": `{"the":"context"}`, "context_hash": "ctx:sha256:the-hash", "deadline": `"deadline":`, "channel": "#channel",
		"from": "owner", "to": "target", "caps": "the cap", "priority": "the priority", "replaces": view.Replaces.String(),
	}
	told := map[string]string{"step verb": "progress", "step note": "the note", "step context": `{"the":"context"}`, "step signature": "the signature"}
	answers := []string{"answer note"} // the reason of an answer, which the runtime writes
	for _, field := range translatetest.Placed(translatetest.MACPFidelity(), translatetest.Out, translatetest.Kept, translatetest.Moved, translatetest.Carried) {
		inSession, inStep := find[field], told[field]
		switch {
		case slices.Contains(answers, field):
		case inSession == "" && inStep == "":
			t.Errorf("%s is in the table, and the test does not look for it", field)
		case !strings.Contains(session.String(), inSession) || !strings.Contains(string(step), inStep):
			t.Errorf("%s is not there", field)
		}
	}
	start, ok := messages[0].(*macpv1.SessionStartPayload)
	if !ok || start.GetTtlMs() != macpmode.MaxTTLMillis {
		t.Errorf("the session takes %d ms", start.GetTtlMs())
	}
}
