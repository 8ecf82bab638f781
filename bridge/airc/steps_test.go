package airc_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

func TestAgentCompletesAnOfferFromIRC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	id := w.offer(t, alice, scout.DID)
	from := wire.Handle(alice.DID)

	if got, want := types(inbox(t, scout)), []string{"system system:handshake_request"}; !slices.Equal(got, want) {
		t.Fatalf("before consent the inbox holds %v, want %v", got, want)
	}
	knock := inbox(t, scout)[0]
	if diff := cmp.Diff(map[string]any{
		"requester": from, "requesterKey": "0EqyMnQrtKs6E2i9RhXk5tAiSrcaAWuvhSCjMsl3hzc", "requesterDid": string(alice.DID),
		"message": "alice offers scout_7: Cite three sources on X (needs web-search)", "heldMessageCount": 1.0,
	}, knock.Payload.Data); diff != "" {
		t.Error("handshake:", diff)
	}
	if !strings.HasPrefix(knock.ID, "sys_") || len(knock.ID) != 26 {
		t.Errorf("id of the handshake is %q", knock.ID)
	}
	if status, answer, err := scout.Consent(t.Context(), from, "accept"); err != nil || status != http.StatusOK || answer["state"] != "accepted" {
		t.Fatal(status, answer, err)
	}
	messages := inbox(t, scout)
	if got, want := types(messages), []string{"system system:handshake_request", from + " task:request"}; !slices.Equal(got, want) {
		t.Fatalf("after consent the inbox holds %v, want %v", got, want)
	}
	offer := messages[1]
	if offer.Payload.Data["description"] != "Cite three sources on X" || offer.Seq != 1 || len(offer.ID) != 22 {
		t.Errorf("offer is %+v", offer)
	}

	for _, step := range []struct {
		payload map[string]any
		verb    string
		state   string
		note    string
	}{
		{ack(offer.ID, "received"), "accept", "assigned", ""},
		{result(offer.ID, "partial", "result", map[string]any{"note": "one of three"}), "progress", "assigned", "one of three"},
		{result(offer.ID, "completed", "result", "all three"), "complete", "completed", "all three"},
	} {
		message, err := scout.Sign(scout.Envelope(from, "on it", step.payload))
		if err != nil {
			t.Fatal(err)
		}
		status, answer, err := scout.Post(t.Context(), message)
		if err != nil || status != http.StatusCreated {
			t.Fatal(step.verb, status, answer, err)
		}
		handoff, _ := answer["handoff"].(map[string]any)
		steps := w.steps(t, id)
		last := steps[len(steps)-1]
		want := map[string]any{"id": id.String(), "event": step.verb, "event_id": last.ID.String(), "state": step.state}
		if diff := cmp.Diff(want, handoff); diff != "" {
			t.Error(step.verb, "answered", diff)
		}
		if last.Provenance != federation.Vouched || string(last.From) != scout.DID || last.ReplyTo != id.String() || last.Note != step.note {
			t.Errorf("%s is filed as %+v", step.verb, last)
		}
		if last.Evidence.Source != sha256.Sum256(message) {
			t.Errorf("%s rests on other bytes than the message", step.verb)
		}
		document, err := signing.Document(last)
		if err != nil || document != last.Signature.Document {
			t.Errorf("%s is signed as %s, want %s", step.verb, last.Signature.Document, document)
		}
		name := hex.EncodeToString(last.Evidence.Digest[:])
		if last.Fields["handoff-src"] != "https://gw.example/evidence/"+name || last.Fields["handoff-src-h"] != "sha256:"+name {
			t.Errorf("%s names the evidence %s %s", step.verb, last.Fields["handoff-src"], last.Fields["handoff-src-h"])
		}
		status, served, err := scout.Do(t.Context(), http.MethodGet, "/evidence/"+name, nil)
		if err != nil || status != http.StatusOK || sha256.Sum256(served) != last.Evidence.Digest {
			t.Errorf("evidence of %s: %d %s %v", step.verb, status, served, err)
		}
	}
	if got := w.verbs(t, id); got != "offer accept progress complete" {
		t.Errorf("filed %s", got)
	}
	if status, answer, _ := scout.Send(t.Context(), from, "", result(offer.ID, "partial")); status != http.StatusConflict || answer["error"] != "terminal_handoff" {
		t.Errorf("after the end: %d %v", status, answer)
	}
}

// Each case starts from an accepted offer whose message has an id.
func TestPostMessageRecognizesSteps(t *testing.T) {
	t.Parallel()
	type args struct {
		message string // id of the offer's message
		handoff string
	}
	for name, test := range map[string]struct {
		payloads func(a args) []map[string]any
		filed    string
	}{
		"an ack processed accepts": {
			func(a args) []map[string]any { return []map[string]any{ack(a.message, "processed")} }, "offer accept",
		},
		"an ack rejected declines": {
			func(a args) []map[string]any { return []map[string]any{ack(a.message, "rejected")} }, "offer decline",
		},
		"a failure before an accept declines": {
			func(a args) []map[string]any { return []map[string]any{result(a.message, "failed", "error", "no")} }, "offer decline",
		},
		"a failure after an accept fails": {
			func(a args) []map[string]any {
				return []map[string]any{ack(a.message, "received"), result(a.message, "failed", "error", "no")}
			}, "offer accept fail",
		},
		"a completion files the accept that it takes for granted": {
			func(a args) []map[string]any { return []map[string]any{result(a.message, "completed")} }, "offer accept complete",
		},
		"the handoff may be named by its ULID": {
			func(a args) []map[string]any { return []map[string]any{ack(a.handoff, "received")} }, "offer accept",
		},
		"the handoff may be named by data.handoff.id": {
			func(a args) []map[string]any {
				return []map[string]any{payload("ack", map[string]any{"status": "received", "handoff": map[string]any{"id": a.handoff}})}
			}, "offer accept",
		},
		"an explicit event decides over the type": {
			func(a args) []map[string]any {
				return []map[string]any{payload("ack", map[string]any{
					"replyTo": a.message, "status": "received", "handoff": map[string]any{"event": "decline"},
				})}
			}, "offer decline",
		},
		"the native type carries any verb": {
			func(a args) []map[string]any {
				return []map[string]any{
					payload("at.freeq:handoff", map[string]any{"event": "accept", "handoff": map[string]any{"id": a.handoff}}),
					payload("at.freeq:handoff", map[string]any{"event": "progress", "handoff": map[string]any{"id": a.handoff}}),
				}
			}, "offer accept progress",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
			scout := w.agent(t, "scout_7", 0x01)
			id := w.offer(t, alice, scout.DID)
			for _, p := range test.payloads(args{inbox(t, scout)[0].ID, id.String()}) {
				if status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", p); err != nil || status != http.StatusCreated {
					t.Fatal(status, answer, err)
				}
			}
			if got := w.verbs(t, id); got != test.filed {
				t.Errorf("filed %q, want %q", got, test.filed)
			}
		})
	}
}

func TestPostMessageIsIdempotentAfterAHalfFiledStep(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		payload func(offer string) map[string]any
		filed   string
	}{
		"an accept":                            {func(offer string) map[string]any { return ack(offer, "received") }, "offer accept"},
		"a completion with its implied accept": {func(offer string) map[string]any { return result(offer, "completed") }, "offer accept complete"},
		"a failure that was a decline":         {func(offer string) map[string]any { return result(offer, "failed") }, "offer decline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
			scout := w.agent(t, "scout_7", 0x01)
			id := w.offer(t, alice, scout.DID)
			message, err := scout.Sign(scout.Envelope(wire.Handle(alice.DID), "", test.payload(inbox(t, scout)[0].ID)))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			w.gateway.filed = func(ev federation.Event) {
				if strings.HasSuffix(test.filed, string(ev.Verb)) { // the last step of the message
					stop()
				}
			}
			if status, answer, err := scout.Post(ctx, message); err != nil || status != http.StatusServiceUnavailable {
				t.Fatal(status, answer, err)
			}
			before := w.steps(t, id)
			w.gateway.filed = nil
			status, answer, err := scout.Post(t.Context(), message)
			if err != nil || status != http.StatusCreated {
				t.Fatal(status, answer, err)
			}
			handoff, _ := answer["handoff"].(map[string]any)
			if want := before[len(before)-1].ID.String(); handoff["event_id"] != want {
				t.Errorf("answered event %v, want %s", handoff["event_id"], want)
			}
			if got := w.verbs(t, id); got != test.filed {
				t.Errorf("filed %q, want %q", got, test.filed)
			}
			if status, answer, _ = scout.Post(t.Context(), message); status != http.StatusConflict || !strings.Contains(answer["message"].(string), "same bytes") {
				t.Errorf("once more: %d %v", status, answer)
			}
		})
	}
}

func TestPostMessageRefusesUnknownSteps(t *testing.T) {
	t.Parallel()
	type args struct{ offer, other, ackID string }
	for name, test := range map[string]struct {
		payload func(a args) any
		to      string // empty for the offerer
		status  int
		code    string
	}{
		"plain text to a DID of another network":        {func(args) any { return nil }, "", 400, "unsupported_payload"},
		"a payload about something else":                {func(args) any { return payload("context:code", map[string]any{}) }, "", 400, "unsupported_payload"},
		"an offer of nothing":                           {func(args) any { return payload("task:request", map[string]any{}) }, "", 400, "bad_request"},
		"an offer of nothing to another agent, by name": {func(args) any { return payload("at.freeq:handoff", map[string]any{"event": "offer"}) }, "mallory", 400, "bad_request"},
		"an offer to oneself, by name": {func(args) any {
			return payload("at.freeq:handoff", map[string]any{"event": "offer", "description": "x"})
		}, "scout_7", 400, "bad_request"},
		"an offer that was due in the year 10000": {func(args) any {
			return payload("task:request", map[string]any{"description": "x", "deadline": 253402300800})
		}, "", 400, "bad_request"},
		"an offer for what is no capability": {func(args) any {
			return payload("task:request", map[string]any{"description": "x", "handoff": map[string]any{"caps": []string{"a b"}}})
		}, "", 400, "bad_request"},
		"an answer to an unknown message": {func(args) any { return ack("nobody-wrote-this-one", "received") }, "", 404, "unknown_handoff"},
		"an answer that names nothing":    {func(args) any { return payload("ack", map[string]any{"status": "received"}) }, "", 404, "unknown_handoff"},
		"an unknown ULID":                 {func(args) any { return result("01K9ZQ0000000000000000000Z", "partial") }, "", 404, "unknown_handoff"},
		"an unknown status":               {func(a args) any { return result(a.offer, "halfway") }, "", 400, "bad_request"},
		"a verb that is no name":          {func(args) any { return payload("at.freeq:handoff", map[string]any{"event": "Dance"}) }, "", 400, "unsupported_payload"},
		"an unknown verb": {func(a args) any {
			return payload("at.freeq:handoff", map[string]any{"event": "dance", "replyTo": a.offer})
		}, "", 400, "unsupported_payload"},
		"an ack of what is not the offer": {func(a args) any { return ack(a.ackID, "processed") }, "", 400, "unsupported_payload"},
		"to is not the other party":       {func(a args) any { return result(a.offer, "partial") }, "mallory", 400, "bad_request"},
		"a second accept":                 {func(a args) any { return ack(a.offer, "received") }, "", 409, "illegal_step"},
		"a cancel by the assignee": {func(a args) any {
			return payload("at.freeq:handoff", map[string]any{"event": "cancel", "replyTo": a.offer})
		}, "", 409, "illegal_step"},
		"two handoffs: the id of one, a message of other": {func(a args) any {
			return payload("task:result", map[string]any{"requestId": a.offer, "status": "partial", "handoff": map[string]any{"id": a.other}})
		}, "", 400, "bad_request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
			scout := w.agent(t, "scout_7", 0x01)
			w.agent(t, "mallory", 0x09)
			id, other := w.offer(t, alice, scout.DID), w.offer(t, alice, scout.DID)
			offer := inbox(t, scout)[0].ID
			_, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", ack(offer, "received"))
			if err != nil {
				t.Fatal(err)
			}
			to := test.to
			if to == "" {
				to = wire.Handle(alice.DID)
			}
			status, refused, err := scout.Send(t.Context(), to, "hello", test.payload(args{offer, other.String(), answer["id"].(string)}))
			if err != nil || status != test.status || refused["error"] != test.code || refused["message"] == "" {
				t.Errorf("answered %d %v %v, want %d %s", status, refused, err, test.status, test.code)
			}
			if got := w.verbs(t, id) + ", " + w.verbs(t, other); got != "offer accept, offer" {
				t.Errorf("filed %q", got)
			}
			if got := w.refusals(test.code); got != 1 {
				t.Errorf("counted %v", got)
			}
		})
	}
}

func TestAcceptByAnotherAgentIsRefusedWithTheState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, mallory := w.agent(t, "scout_7", 0x01), w.agent(t, "mallory", 0x09)
	id := w.offer(t, alice, scout.DID)
	status, answer, err := mallory.Send(t.Context(), wire.Handle(alice.DID), "", ack(id.String(), "received"))
	if err != nil || status != http.StatusForbidden || answer["error"] != "wrong_sender" {
		t.Fatal(status, answer, err)
	}
	if diff := cmp.Diff(map[string]any{"id": id.String(), "state": "offered"}, answer["handoff"]); diff != "" {
		t.Error(diff)
	}
	if w.lines("request refused") != 0 {
		t.Error("a step that the gateway judged was logged twice:", w.log)
	}
}

func TestOfferToTheOwnDIDOfAnAgentIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	own := signingKey(0x01).DID
	id := w.offer(t, alice, string(own))
	if status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", ack(inbox(t, scout)[0].ID, "received")); err != nil || status != http.StatusCreated {
		t.Fatal(status, answer, err)
	}
	accept := w.steps(t, id)[1]
	if string(accept.From) != scout.DID || accept.For != own || accept.Fields["handoff-for"] != string(own) {
		t.Errorf("filed %+v", accept)
	}
}

func TestPostMessageAnswerNamesLosses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	w.offer(t, alice, scout.DID)
	offer := inbox(t, scout)[0].ID
	status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", result(offer, "completed",
		"result", map[string]any{"note": strings.Repeat("n", 401)}, "artifacts", []string{strings.Repeat("a", 5000)}))
	if err != nil || status != http.StatusCreated {
		t.Fatal(status, answer, err)
	}
	handoff, _ := answer["handoff"].(map[string]any)
	if diff := cmp.Diff([]any{"note"}, handoff["lost"]); diff != "" { // the artifacts are stored, and referred to
		t.Error(diff)
	}
}

func TestPostMessageAnswerNamesAContextWithoutRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	w.contexts.Limits = func() (int64, int64) { return 100, 0 }
	scout := w.agent(t, "scout_7", 0x01)
	w.offer(t, alice, scout.DID)
	offer := inbox(t, scout)[0].ID
	status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", result(offer, "completed", "artifacts", []string{strings.Repeat("a", 5000)}))
	handoff, _ := answer["handoff"].(map[string]any)
	if diff := cmp.Diff([]any{"artifacts"}, handoff["lost"]); diff != "" || status != http.StatusCreated || err != nil {
		t.Error(status, err, diff)
	}
}

func TestSecondAgentReadsTheStepsOfTheOfferer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	scout := w.agent(t, "scout_7", 0x01)
	planner := w.agent(t, "planner", 0x11, func(a *bridgetest.Agent) { // alice's key: she offers on IRC
		a.Capabilities = map[string]any{"payloads": []string{"at.freeq:handoff"}}
	})
	w.offer(t, alice, scout.DID)
	offer := inbox(t, scout)[0]
	if offer.From != "planner" {
		t.Fatalf("the offer is from %q", offer.From)
	}
	message, err := scout.Sign(scout.Envelope("planner", "on it", ack(offer.ID, "received")))
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := scout.Post(t.Context(), message)
	if err != nil || status != http.StatusCreated || answer["handoff"] == nil { // an offerer wants answers
		t.Fatal(status, answer, err)
	}
	raws, _, err := planner.Inbox(t.Context(), "")
	if err != nil || len(raws) != 1 {
		t.Fatalf("%s %v", raws, err)
	}
	if got, want := string(raws[0]), `{"seq":2,`+string(message[1:]); got != want {
		t.Errorf("the offerer reads\n%s, want\n%s", got, want)
	}
}

// spec: airc-shapes "Sessions and proofs"
func TestPostMessageRefusesOfferWithUnusableMember(t *testing.T) {
	t.Parallel()
	due := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	inMaxDeadline := func(w *world) { w.gateway.home.Limits.MaxDeadline = 720 * time.Hour }
	for name, test := range map[string]struct {
		data map[string]any
		want string // named in the refusal; empty for a filed offer
	}{
		"a deadline in milliseconds":         {map[string]any{"description": "x", "deadline": due.UnixMilli()}, "data.deadline"},
		"a deadline beyond the longest one":  {map[string]any{"description": "x", "deadline": due.AddDate(1, 0, 0).Unix()}, "handoff-deadline"},
		"a deadline in microseconds":         {map[string]any{"description": "x", "deadline": due.UnixMicro()}, "data.deadline"},
		"a deadline of zero":                 {map[string]any{"description": "x", "deadline": 0}, "data.deadline"},
		"a negative deadline":                {map[string]any{"description": "x", "deadline": -due.Unix()}, "data.deadline"},
		"a deadline with a fraction":         {map[string]any{"description": "x", "deadline": 1788000000.5}, "data.deadline"},
		"a deadline that is no time":         {map[string]any{"description": "x", "deadline": "tomorrow"}, "data.deadline"},
		"a deadline that is a list":          {map[string]any{"description": "x", "deadline": []int{1}}, "data.deadline"},
		"a deadline of the handoff":          {map[string]any{"description": "x", "handoff": map[string]any{"deadline": -1}}, "data.handoff.deadline"},
		"no description":                     {map[string]any{"priority": "high"}, "data.description"},
		"a blank description":                {map[string]any{"description": " \t"}, "data.description"},
		"a description that is a number":     {map[string]any{"description": 7}, "data.description"},
		"a priority that is an object":       {map[string]any{"description": "x", "priority": map[string]any{}}, "data.priority"},
		"capabilities that are no list":      {map[string]any{"description": "x", "handoff": map[string]any{"caps": "go"}}, "data.handoff.caps"},
		"a deadline in seconds":              {map[string]any{"description": "x", "deadline": due.Unix()}, ""},
		"a deadline of RFC 3339":             {map[string]any{"description": "x", "deadline": due.Format(time.RFC3339)}, ""},
		"a deadline of RFC 3339 with a zone": {map[string]any{"description": "x", "deadline": due.In(time.FixedZone("", 7200)).Format(time.RFC3339Nano)}, ""},
	} {
		for face, send := range map[string]func(t *testing.T, w *world, payload any) (int, map[string]any){
			"signed": func(t *testing.T, w *world, payload any) (int, map[string]any) {
				t.Helper()
				status, answer, err := w.agent(t, "planner", 0x04).Send(t.Context(), "scout_7", "please", payload)
				if err != nil {
					t.Fatal(err)
				}
				return status, answer
			},
			"with a token": func(t *testing.T, w *world, payload any) (int, map[string]any) {
				t.Helper()
				planner := w.newcomer(t, "planner", nil)
				return planner.call(t, http.MethodPost, "/api/messages", map[string]any{"to": "scout_7", "body": "please", "payload": payload})
			},
		} {
			t.Run(name+" "+face, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
				inMaxDeadline(w)
				scout := w.agent(t, "scout_7", 0x01)
				status, answer := send(t, w, payload("task:request", test.data))
				if test.want == "" {
					handoff, _ := answer["handoff"].(map[string]any)
					view, err := w.record.View(t.Context(), parseHandoff(t, handoff))
					deadline := due
					if err != nil || status >= http.StatusBadRequest || !view.Deadline.Equal(deadline) {
						t.Errorf("answered %d %v, %v; deadline %v, want %v", status, answer, err, view.Deadline, deadline)
					}
					return
				}
				message, _ := answer["message"].(string)
				if status != http.StatusBadRequest || answer["error"] != "bad_request" || !strings.Contains(message, test.want) {
					t.Errorf("answered %d %v, want 400 bad_request that names %s", status, answer, test.want)
				}
				if got := inbox(t, scout); len(got) != 0 {
					t.Errorf("the recipient got %v", got)
				}
			})
		}
	}
}

func TestPostMessageRefusesAnswerWithUnusableMember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		payload func(offer string) any
		want    string // the outcome
		names   string
	}{
		"an unknown status to the offer":   {func(offer string) any { return ack(offer, "maybe") }, "400 bad_request", "data.status"},
		"no status":                        {func(offer string) any { return payload("ack", map[string]any{"replyTo": offer}) }, "400 bad_request", "data.status"},
		"an unknown result of the offer":   {func(offer string) any { return result(offer, "halfway") }, "400 bad_request", "data.status"},
		"a result of another type":         {func(offer string) any { return result(offer, "partial", "error", 7) }, "400 bad_request", "data.error"},
		"an unknown status to no handoff":  {func(string) any { return ack("msg_of_another_kind", "seen") }, "201", ""},
		"a result of what is no handoff":   {func(string) any { return result("job-17", "halfway") }, "201", ""},
		"an unknown status to the handoff": {func(string) any { return ack("", "maybe") }, "400 bad_request", "data.status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			planner, scout := w.agent(t, "planner", 0x04), w.agent(t, "scout_7", 0x01)
			consents(t, scout, planner)
			_, answer, err := planner.Send(t.Context(), "scout_7", "please", request("Cite three sources"))
			if err != nil {
				t.Fatal(answer, err)
			}
			handoff, _ := answer["handoff"].(map[string]any)
			id := parseHandoff(t, handoff)
			sent := test.payload(answer["id"].(string))
			if data := sent.(map[string]any)["data"].(map[string]any); data["replyTo"] == "" {
				data["handoff"] = map[string]any{"id": id.String()}
			}
			status, refused, err := scout.Send(t.Context(), "planner", "well", sent)
			if got := told(status, refused, err); got != test.want || !strings.Contains(fmt.Sprint(refused["message"]), test.names) {
				t.Errorf("answered %s %v, want %s that names %q", got, refused, test.want, test.names)
			}
			if got := w.verbs(t, id); got != "offer" {
				t.Errorf("filed %q", got)
			}
		})
	}
}
