package airc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// bob is a user on IRC without a step.
func bob() federation.DID { return signingKey(0x44).DID }

// meet makes alice known here: she offers work to a third party.
func (w *world) meet(t *testing.T) {
	t.Helper()
	w.offer(t, alice, string(bob()))
}

// start sends an offer and returns the handoff that it opened, with the id of its
// message.
func start(t *testing.T, a *bridgetest.Agent, to string, payload any) (id federation.HandoffID, message string) {
	t.Helper()
	status, answer, err := a.Send(t.Context(), to, "please", payload)
	if err != nil || status >= http.StatusMultipleChoices {
		t.Fatal(status, answer, err)
	}
	handoff, _ := answer["handoff"].(map[string]any)
	text, _ := handoff["id"].(string)
	if id, err = federation.ParseEventID(text); err != nil || handoff["event"] != "offer" || handoff["event_id"] != text {
		t.Fatal(answer, err)
	}
	return id, answer["id"].(string)
}

func request(description string, more ...any) map[string]any {
	data := map[string]any{"description": description}
	for i := 0; i < len(more); i += 2 {
		data[more[i].(string)] = more[i+1]
	}
	return payload("task:request", data)
}

func TestOfferPayloads(t *testing.T) {
	t.Parallel()
	const due = 1900000000
	type terms struct {
		Title, Context, Priority string
		Caps                     []string
		Deadline                 int64
	}
	for name, test := range map[string]struct {
		payload map[string]any
		want    terms
	}{
		"a task:request": {
			request("Cite X", "deadline", due, "priority", "high", "context", map[string]any{"q": "X"}, "handoff", map[string]any{"caps": []string{"web-search", "go"}}),
			terms{"Cite X", `{"q":"X"}`, "high", []string{"web-search", "go"}, due},
		},
		"a handoff:session": {
			payload("handoff:session", map[string]any{"summary": "Take over", "files": []string{"a.go"}, "todos": []string{"test"}, "context": map[string]any{"branch": "main"}}),
			terms{Title: "Take over", Context: `{"context":{"branch":"main"},"files":["a.go"],"todos":["test"]}`},
		},
		"a flat handoff of version 1.0": {
			map[string]any{
				"type": "handoff", "version": "1.0", "handoff_id": "handoff_1_x", "task": map[string]any{"title": "Fix it", "intent": "green", "priority": "critical"},
				"context": map[string]any{"repo": "r"}, "history": map[string]any{"summary": "half done"},
			},
			terms{Title: "Fix it", Context: `{"context":{"repo":"r"},"history":{"summary":"half done"},"intent":"green"}`, Priority: "critical"},
		},
		"a flat handoff of version 0.1.0": {
			map[string]any{"type": "handoff", "task": "Fix it", "context": map[string]any{"repo": "r"}, "idempotencyKey": "k"},
			terms{Title: "Fix it", Context: `{"repo":"r"}`},
		},
		"a flat handoff of text alone": {map[string]any{"type": "handoff", "text": " Fix\nit "}, terms{Title: "Fix it"}},
		"an at.freeq:handoff": {
			payload("at.freeq:handoff", map[string]any{"event": "offer", "handoff": map[string]any{"title": "Fix it", "deadline": due, "context_ref": "https://x.example/c"}}),
			terms{Title: "Fix it", Context: "https://x.example/c", Deadline: due},
		},
		"one with the id of another handoff, which counts for nothing": {
			request("Fix it", "handoff", map[string]any{"id": "01K9ZQ0000000000000000000Z"}), terms{Title: "Fix it"},
		},
	} {
		for _, tags := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
			t.Run(name+", in "+string(tags)+" tags", func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.gateway.dialect = tags
				scout := w.agent(t, "scout_7", 0x01)
				w.meet(t)
				id, _ := start(t, scout, wire.Handle(alice.DID), test.payload)
				offer := w.steps(t, id)[0]
				got := terms{offer.Title, offer.Context, offer.Priority, offer.Caps, 0}
				if !offer.Deadline.IsZero() {
					got.Deadline = offer.Deadline.Unix()
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
				if offer.Dialect != tags || string(offer.From) != scout.DID || offer.To != alice.DID || offer.Provenance != federation.Vouched || offer.For != "" {
					t.Errorf("filed %+v", offer)
				}
				if document, err := signing.Document(offer); err != nil || document != offer.Signature.Document || len(offer.Fields) < 5 {
					t.Errorf("signed %s (%v), want %s", offer.Signature.Document, err, document)
				}
			})
		}
	}
}

func TestOfferPlace(t *testing.T) {
	t.Parallel()
	from := kept("scout_7").DID
	for name, test := range map[string]struct {
		to      string
		online  bool
		channel string
		want    federation.View
	}{
		"to the nick while it is online":                 {wire.Handle(alice.DID), true, "", federation.View{Venue: federation.PrivateVenue(from, alice.DID), Link: "lab"}},
		"else to the channel of its link":                {wire.Handle(alice.DID), false, "#side", federation.View{Venue: "#ops"}},
		"an open one to the channel that it names":       {"anyone", false, "#Side", federation.View{Venue: "#side"}},
		"else to the first one":                          {"anyone", true, "#other", federation.View{Venue: "#ops"}},
		"one between agents nowhere":                     {"planner", true, "", federation.View{Venue: federation.PrivateVenue(from, kept("planner").DID), Link: "airc"}},
		"an alias is as good":                            {wire.Alias(alice.DID, "alice"), false, "", federation.View{Venue: "#ops"}},
		"what names no channel is as good as no channel": {"anyone", false, "side", federation.View{Venue: "#ops"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.gateway.online = test.online
			scout := w.agent(t, "scout_7", 0x01)
			w.agent(t, "planner", 0x04)
			w.meet(t)
			id, _ := start(t, scout, test.to, request("Cite X", "handoff", map[string]any{"channel": test.channel}))
			view, err := w.record.View(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if got := (federation.View{Venue: view.Venue, Link: view.Link}); !cmp.Equal(test.want, got) {
				t.Errorf("written to %+v, want %+v", got, test.want)
			}
			want := federation.Offered
			if test.to == "anyone" {
				want = federation.Open
			}
			if view.State != want || view.Offerer != from {
				t.Errorf("the handoff is %+v", view)
			}
		})
	}
}

func TestOfferToAnUnreachablePartyWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	w.meet(t)
	w.gateway.unlink = true
	status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", request("x"))
	if err != nil || status != http.StatusServiceUnavailable || answer["error"] != "unavailable" {
		t.Error(status, answer, err)
	}
	id, _ := start(t, scout, "anyone", request("x")) // other agents may claim it
	view, err := w.record.View(t.Context(), id)
	if want := federation.PrivateVenue(view.Offerer, "did:web:gw.example"); err != nil || view.Venue != want {
		t.Errorf("an open offer is in %s (%v), want %s", view.Venue, err, want)
	}
}

func TestOfferAnswerNamesLosses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	w.meet(t)
	status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "",
		request(strings.Repeat("ü", 151), "context", map[string]any{"artifacts": strings.Repeat("x", 5000)}))
	if err != nil || status != http.StatusCreated {
		t.Fatal(status, answer, err)
	}
	handoff, _ := answer["handoff"].(map[string]any)
	if diff := cmp.Diff([]any{"title"}, handoff["lost"]); diff != "" {
		t.Error(diff)
	}
	id, err := federation.ParseEventID(handoff["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if offer := w.steps(t, id)[0]; offer.Title != strings.Repeat("ü", 150) || len(w.stored(t, offer.Context, offer.ContextHash)) < 5000 {
		t.Errorf("filed %q, %q", offer.Title, offer.Context)
	}
}

func TestOfferIsIdempotent(t *testing.T) {
	t.Parallel()
	for _, to := range []string{wire.Handle(alice.DID), "planner", "anyone"} {
		w := newWorld(t)
		scout := w.agent(t, "scout_7", 0x01)
		w.agent(t, "planner", 0x04)
		w.meet(t)
		text, err := scout.Sign(scout.Envelope(to, "please", request("x")))
		if err != nil {
			t.Fatal(err)
		}
		var ids []any
		for _, broken := range []bool{true, true, false} {
			ctx, stop := context.WithCancel(t.Context())
			if broken {
				w.gateway.filed = func(federation.Event) { stop() }
			}
			status, answer, err := scout.Post(ctx, text)
			w.gateway.filed = nil
			stop()
			if err != nil || broken != (status == http.StatusServiceUnavailable) {
				t.Fatal(to, status, answer, err)
			}
			ids = append(ids, answer["handoff"])
		}
		if n := w.openOf(t, federation.DID(scout.DID)); n != 1 || ids[2] == nil {
			t.Errorf("to %s: %d handoffs are open, answered %v", to, n, ids)
		}
	}
}

// Each answer of an IRC user reaches the agent that offered, although the agent consented to
// no sender.
func TestOfferAnswersNeedNoHandshake(t *testing.T) {
	t.Parallel()
	from := wire.Handle(alice.DID)
	for name, test := range map[string]struct {
		open  bool
		steps []federation.Verb
		want  []string
	}{
		"an accept, progress, and the end": {
			false,
			[]federation.Verb{federation.Accept, federation.Progress, federation.Complete},
			[]string{from + " ack received", from + " task:result partial", from + " task:result completed"},
		},
		"a failure":         {false, []federation.Verb{federation.Accept, federation.Fail}, []string{from + " ack received", from + " task:result failed"}},
		"a decline":         {false, []federation.Verb{federation.Decline}, []string{from + " ack rejected"}},
		"a claim":           {true, []federation.Verb{federation.Claim, federation.Complete}, []string{from + " ack received", from + " task:result completed"}},
		"that time ran out": {false, []federation.Verb{federation.Expire}, []string{"system at.freeq:handoff <nil>"}},
		"nobody claimed it": {true, []federation.Verb{federation.Expire}, []string{"system at.freeq:handoff <nil>"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			scout := w.agent(t, "scout_7", 0x01)
			to := "anyone"
			if !test.open {
				w.meet(t)
				to = from
			}
			id, offer := start(t, scout, to, request("Cite X", "deadline", time.Now().Add(time.Minute).Unix()))
			for _, verb := range test.steps {
				if verb == federation.Expire {
					w.sweep(t, time.Now().Add(time.Hour))
					continue
				}
				w.fromIRC(t, alice, federation.Event{Handoff: id, Verb: verb}, map[string]string{})
			}
			var got []string
			for _, m := range inbox(t, scout) {
				status, _ := m.Payload.Data["status"].(string)
				if status == "" {
					status = "<nil>"
				}
				got = append(got, m.From+" "+m.Payload.Type+" "+status)
				for _, ref := range []string{"replyTo", "requestId"} {
					if named, there := m.Payload.Data[ref]; there && named != offer {
						t.Errorf("%s is %v, want %s", ref, named, offer)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// sweep expires the overdue offers at a time, and delivers the results.
func (w *world) sweep(t *testing.T, now time.Time) {
	t.Helper()
	if _, err := w.gateway.home.Sweep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
}

func TestOfferIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	w.meet(t)
	for _, to := range []string{wire.Handle(alice.DID), "anyone"} {
		id, _ := start(t, scout, to, request("x"))
		cancel := payload("at.freeq:handoff", map[string]any{"handoff": map[string]any{"id": id.String(), "event": "cancel"}})
		if status, answer, err := scout.Send(t.Context(), to, "", cancel); err != nil || status != http.StatusCreated {
			t.Error(to, status, answer, err)
		}
		if got := w.verbs(t, id); got != "offer cancel" {
			t.Errorf("to %s: filed %s", to, got)
		}
	}
}

func TestOfferHeldKeepsItsEnd(t *testing.T) {
	t.Parallel()
	from := wire.Handle(alice.DID)
	for name, test := range map[string]struct {
		action string
		want   []string
	}{
		"until the agent accepts": {"accept", []string{"system system:handshake_request", from + " task:request", "system at.freeq:handoff"}},
		"and goes with a block":   {"block", []string{"system system:handshake_request"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.gateway.home.Limits.Unanswered = time.Minute
			scout := w.agent(t, "scout_7", 0x01)
			w.offer(t, alice, scout.DID)
			w.sweep(t, time.Now().Add(time.Hour))
			if diff := cmp.Diff([]string{"system system:handshake_request"}, types(inbox(t, scout))); diff != "" {
				t.Error(diff)
			}
			if _, _, err := scout.Consent(t.Context(), from, test.action); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, types(inbox(t, scout))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOfferKeepsTheWordsOfItsAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	offer, err := planner.Sign(planner.Envelope("scout_7", "please", request("Cite X")))
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := planner.Post(t.Context(), offer)
	if err != nil || status != http.StatusAccepted || answer["consent"] != "pending" || answer["handoff"] == nil {
		t.Fatal(status, answer, err)
	}
	if _, _, err := scout.Consent(t.Context(), "planner", "accept"); err != nil {
		t.Fatal(err)
	}
	done, err := scout.Sign(scout.Envelope("planner", "here", result(answer["id"].(string), "completed")))
	if err != nil {
		t.Fatal(err)
	}
	if status, answer, err := scout.Post(t.Context(), done); err != nil || status != http.StatusCreated || answer["seq"] != 2.0 {
		t.Fatal(status, answer, err)
	}
	for name, test := range map[string]struct {
		agent *bridgetest.Agent
		want  string
	}{
		"scout_7 reads the offer": {scout, `{"seq":1,` + string(offer[1:])},
		"planner reads the end":   {planner, `{"seq":2,` + string(done[1:])},
	} {
		raws, _, err := test.agent.Inbox(t.Context(), "")
		if err != nil || string(raws[len(raws)-1]) != test.want {
			t.Errorf("%s as %s (%v), want %s", name, raws, err, test.want)
		}
	}
	handoff, _ := answer["handoff"].(map[string]any)
	id, err := federation.ParseEventID(handoff["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.verbs(t, id); got != "offer accept complete" {
		t.Errorf("filed %s", got)
	}
	if status, answer, err := planner.Send(t.Context(), "planner", "", request("a note to myself")); err != nil || status != http.StatusCreated || answer["handoff"] != nil {
		t.Errorf("an offer to oneself: %d %v %v", status, answer, err)
	}
}

func TestOfferCountsAgainstTheLimitsOfTheHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	w.gateway.home.Limits.Inbox.Events = 2
	for _, want := range []int{http.StatusAccepted, http.StatusAccepted, http.StatusTooManyRequests} {
		status, answer, err := planner.Send(t.Context(), "scout_7", "", request("x")) // held ones count
		if err != nil || status != want || status == http.StatusTooManyRequests && answer["error"] != "recipient_over_capacity" {
			t.Errorf("answered %d %v %v, want %d", status, answer, err, want)
		}
	}
	if _, _, err := scout.Consent(t.Context(), "planner", "accept"); err != nil {
		t.Fatal(err)
	}
	inbox(t, scout) // messages handed out no longer wait
	if status, answer, err := planner.Send(t.Context(), "scout_7", "", request("x")); err != nil || status != http.StatusCreated {
		t.Errorf("after the inbox was read: %d %v %v", status, answer, err)
	}
	w.gateway.home.Limits.OpenHandoffs = 3
	if status, answer, err := planner.Send(t.Context(), "scout_7", "", request("x")); err != nil || status != http.StatusTooManyRequests || answer["error"] != "rate_limited" {
		t.Errorf("one handoff too many: %d %v %v", status, answer, err)
	}
}
