package airc_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// able registers an agent with skills.
func (w *world) able(t *testing.T, handle string, b byte, skills ...string) *bridgetest.Agent {
	t.Helper()
	return w.agent(t, handle, b, func(a *bridgetest.Agent) { a.Capabilities = map[string]any{"skills": skills} })
}

// befriend lets a sender write to agents.
func befriend(t *testing.T, from string, agents ...*bridgetest.Agent) {
	t.Helper()
	for _, a := range agents {
		if status, answer, err := a.Consent(t.Context(), from, "accept"); err != nil || status != http.StatusOK {
			t.Fatal(status, answer, err)
		}
	}
}

func TestOpenOfferReachesCapableAgents(t *testing.T) {
	t.Parallel()
	for _, author := range []string{wire.Handle(alice.DID), "planner"} {
		t.Run("from "+author, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.meet(t)
			planner := w.able(t, "planner", 0x09, "web-search")
			able, unable := w.able(t, "able", 0x01, "go", "web-search"), w.able(t, "unable", 0x02, "go")
			shy, hermit := w.able(t, "shy", 0x03, "web-search"), w.able(t, "hermit", 0x04, "web-search")
			befriend(t, author, able, unable)
			if _, _, err := hermit.Consent(t.Context(), author, "block"); err != nil {
				t.Fatal(err)
			}
			if author == "planner" {
				start(t, planner, "anyone", request("Cite X", "handoff", map[string]any{"caps": []string{"web-search"}}))
				start(t, planner, "anyone", request("For whoever knows of it"))
			} else {
				w.offer(t, alice, "")
			}
			for _, a := range []*bridgetest.Agent{planner, able, unable, shy, hermit} {
				var want []string
				if a == able {
					want = []string{author + " task:request"}
				}
				if diff := cmp.Diff(want, types(inbox(t, a))); diff != "" {
					t.Errorf("%s: %s", a.Handle, diff)
				}
			}
			if data, _ := inbox(t, able)[0].Payload.Data["handoff"].(map[string]any); data["state"] != "open" || data["to_did"] != nil {
				t.Errorf("the offer says %v", data)
			}
		})
	}
}

// Each case starts from an open offer that two agents were shown.
func TestClaimReachesItsListeners(t *testing.T) {
	t.Parallel()
	from := wire.Handle(alice.DID)
	type args struct{ message, handoff string }
	for name, test := range map[string]struct {
		payload func(a args) map[string]any
		filed   string
	}{
		"an ack claims":                 {func(a args) map[string]any { return ack(a.message, "received") }, "offer claim"},
		"an ack processed claims":       {func(a args) map[string]any { return ack(a.message, "processed") }, "offer claim"},
		"whoever knows the id may":      {func(a args) map[string]any { return ack(a.handoff, "received") }, "offer claim"},
		"a completion claims first":     {func(a args) map[string]any { return result(a.message, "completed") }, "offer claim complete"},
		"a claim by name is one":        {func(a args) map[string]any { return native(a.handoff, "claim") }, "offer claim"},
		"in a completion by name, too":  {func(a args) map[string]any { return native(a.handoff, "complete") }, "offer claim complete"},
		"an end by the offerer is told": {nil, "offer cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			winner, loser := w.able(t, "winner", 0x01, "web-search"), w.able(t, "loser", 0x02, "web-search")
			w.meet(t)
			befriend(t, from, winner, loser)
			id := w.offer(t, alice, "")
			shown := inbox(t, loser)[0].ID
			want := map[*bridgetest.Agent][]string{
				winner: {from + " task:request"}, loser: {from + " task:request", "system at.freeq:handoff"},
			}
			if test.payload == nil {
				w.fromIRC(t, alice, federation.Event{Handoff: id, Verb: federation.Cancel}, map[string]string{})
				want[winner] = want[loser]
			} else {
				p := test.payload(args{inbox(t, winner)[0].ID, id.String()})
				if status, answer, err := winner.Send(t.Context(), from, "mine", p); err != nil || status != http.StatusCreated {
					t.Fatal(status, answer, err)
				}
			}
			if got := w.verbs(t, id); got != test.filed {
				t.Errorf("filed %q, want %q", got, test.filed)
			}
			for a, want := range want {
				if diff := cmp.Diff(want, types(inbox(t, a))); diff != "" {
					t.Errorf("%s: %s", a.Handle, diff)
				}
			}
			notice := inbox(t, loser)[1].Payload.Data
			if notice["notice"] != "taken" || notice["messageId"] != shown {
				t.Errorf("told %v, want the message %s", notice, shown)
			}
			if test.payload == nil {
				return
			}
			for late, want := range map[string]string{"ack": "illegal_step", "task:result": "wrong_sender"} {
				p := ack(id.String(), "received")
				if late == "task:result" {
					p = result(id.String(), "completed")
				}
				status, answer, err := loser.Send(t.Context(), from, "", p)
				view, _ := answer["handoff"].(map[string]any)
				over := view["state"] == "completed"
				if err != nil || !over && (answer["error"] != want || view["assignee"] != winner.DID) || over && answer["error"] != "terminal_handoff" {
					t.Errorf("a late %s: %d %v %v, want %s", late, status, answer, err, want)
				}
			}
		})
	}
}

func native(id, event string) map[string]any {
	return payload("at.freeq:handoff", map[string]any{"event": event, "handoff": map[string]any{"id": id}})
}

func TestClaimFromIRCReachesReadersOfTheOffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	planner, scout := w.agent(t, "planner", 0x09), w.able(t, "scout_7", 0x01, "go")
	befriend(t, "planner", scout)
	id, offer := start(t, planner, "anyone", request("Cite X", "handoff", map[string]any{"caps": []string{"go"}}))
	w.fromIRC(t, alice, federation.Event{Handoff: id, Verb: federation.Claim}, map[string]string{})
	w.fromIRC(t, alice, federation.Event{Handoff: id, Verb: federation.Complete}, map[string]string{})
	if diff := cmp.Diff([]string{"planner task:request", "system at.freeq:handoff"}, types(inbox(t, scout))); diff != "" {
		t.Error(diff)
	}
	from := wire.Handle(alice.DID)
	if diff := cmp.Diff([]string{from + " ack", from + " task:result"}, types(inbox(t, planner))); diff != "" {
		t.Error(diff)
	}
	if named := inbox(t, planner)[0].Payload.Data["replyTo"]; named != offer {
		t.Errorf("the ack answers %v, want %s", named, offer)
	}
}

func TestClaimOfAnotherAgentsOpenOffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	planner, scout := w.agent(t, "planner", 0x09), w.able(t, "scout_7", 0x01, "go")
	befriend(t, "planner", scout)
	id, _ := start(t, planner, "anyone", request("Cite X", "handoff", map[string]any{"caps": []string{"go"}}))
	message, err := scout.Sign(scout.Envelope("planner", "mine", ack(inbox(t, scout)[0].ID, "received")))
	if err != nil {
		t.Fatal(err)
	}
	if status, answer, err := scout.Post(t.Context(), message); err != nil || status != http.StatusCreated {
		t.Fatal(status, answer, err)
	}
	if got := w.verbs(t, id); got != "offer claim" {
		t.Errorf("filed %s", got)
	}
	if got := types(inbox(t, planner)); !slices.Equal(got, []string{"scout_7 ack"}) {
		t.Errorf("the offerer reads %v", got)
	}
}

func TestClaimNeedsTheDeclaredCapabilities(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gateway.home.Limits.ClaimCaps = true
	w.gateway.home.Declared = noCapabilities{}.Declared
	scout := w.able(t, "scout_7", 0x01, "go")
	id := w.offer(t, alice, "")
	status, answer, err := scout.Send(t.Context(), wire.Handle(alice.DID), "", ack(id.String(), "received"))
	if err != nil || status != http.StatusForbidden || answer["error"] != "missing_capability" {
		t.Error(status, answer, err)
	}
}

func TestHandleAnyoneIsReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout := w.agent(t, "scout_7", 0x01)
	if status, answer, err := scout.Identity(t.Context(), "anyone"); err != nil || status != http.StatusNotFound || answer["error"] != "identity_not_found" {
		t.Error(status, answer, err)
	}
	if status, answer, err := scout.Send(t.Context(), "anyone", "hello", nil); err != nil || status != http.StatusBadRequest || answer["error"] != "unsupported_payload" {
		t.Error(status, answer, err)
	}
}
