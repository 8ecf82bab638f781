package airc_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// The result of each action of each actor in each state of the edge from planner to scout: the
// answer, how that edge stands then, and the one back.
//
// spec: airc-v0.1.1 §9
func TestConsentFollowsStateActionAndActor(t *testing.T) {
	t.Parallel()
	states := []struct {
		name string
		make []string // actions as "handle action"
	}{
		{"none", nil},
		{"pending", []string{"planner message"}},
		{"accepted", []string{"scout accept"}},
		{"blocked", []string{"scout block"}},
		{"barred", []string{"planner message", "scout block", "scout unblock"}},
	}
	for action, wants := range map[string][]string{ // in the order of the states
		"scout accept":  {"200 accepted none", "200 accepted accepted", "200 accepted none", "200 accepted none", "200 accepted none"},
		"scout block":   {"200 blocked none", "200 blocked none", "200 blocked none", "200 blocked none", "200 blocked none"},
		"scout unblock": {"200 none none", "200 pending none", "200 accepted none", "200 none none", "200 none none"},
		"scout message": {"202 none pending", "202 pending pending", "202 accepted pending", "202 blocked pending", "202 none pending"},
		// A sender cannot let itself in.
		"planner accept":  {"200 none accepted", "200 pending accepted", "200 accepted accepted", "200 blocked accepted", "200 none accepted"},
		"planner block":   {"200 none blocked", "200 pending blocked", "200 accepted blocked", "200 blocked blocked", "200 none blocked"},
		"planner unblock": {"200 none none", "200 pending none", "200 accepted none", "200 blocked none", "200 none none"},
		"planner message": {"202 pending none", "202 pending none", "201 accepted accepted", "403 consent_blocked blocked none", "429 rate_limited none none"},
		// A third agent does not decide about the edge, nor does a caller without a token.
		"mallory accept":  {"200 none none", "200 pending none", "200 accepted none", "200 blocked none", "200 none none"},
		"mallory block":   {"200 none none", "200 pending none", "200 accepted none", "200 blocked none", "200 none none"},
		"mallory unblock": {"200 none none", "200 pending none", "200 accepted none", "200 blocked none", "200 none none"},
		"nobody accept":   {"401 unauthorized none none", "401 unauthorized pending none", "401 unauthorized accepted none", "401 unauthorized blocked none", "401 unauthorized none none"},
		"scout befriend":  {"400 bad_request none none", "400 bad_request pending none", "400 bad_request accepted none", "400 bad_request blocked none", "400 bad_request none none"},
	} {
		for n, state := range states {
			t.Run(action+" where it is "+state.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				agents := map[string]*bridgetest.Agent{
					"scout": w.agent(t, "scout_7", 0x01), "planner": w.agent(t, "planner", 0x04), "mallory": w.agent(t, "mallory", 0x05),
					"nobody": w.stranger("nobody", 0x06),
				}
				act := func(what string) string {
					t.Helper()
					who, verb, _ := strings.Cut(what, " ")
					other := map[string]string{"scout": "planner"}[who]
					if other == "" {
						other = "scout_7"
					}
					if verb == "message" {
						return told(agents[who].Send(t.Context(), other, "hello", nil))
					}
					return told(agents[who].Consent(t.Context(), other, verb))
				}
				for _, what := range state.make {
					act(what)
				}
				came := []string{act(action)}
				for _, e := range [][2]string{{"planner", "scout_7"}, {"scout_7", "planner"}} {
					edge, err := w.record.Consent(t.Context(), e[0], e[1])
					if err != nil {
						t.Fatal(err)
					}
					came = append(came, string(edge.State))
				}
				if got := strings.Join(came, " "); got != wants[n] {
					t.Errorf("%s, want %s", got, wants[n])
				}
			})
		}
	}
}

// An agent receives messages from the senders that it let in or wrote to, and not from a
// sender because that sender let it in.
func TestConsentIsGivenByWriting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scout, planner := w.agent(t, "scout_7", 0x01), w.agent(t, "planner", 0x04)
	if got := told(scout.Consent(t.Context(), "planner", "accept")); got != "200" {
		t.Fatal(got)
	}
	for _, test := range []struct {
		from *bridgetest.Agent
		to   string
		want int
	}{
		{planner, "scout_7", http.StatusCreated}, // it was let in
		{scout, "planner", http.StatusCreated},   // an answer
	} {
		if status, answer, err := test.from.Send(t.Context(), test.to, "hello", nil); err != nil || status != test.want {
			t.Errorf("to %s: %d %v %v", test.to, status, answer, err)
		}
	}
	if got := fmt.Sprint(edge(t, scout, "planner"), ", ", edge(t, planner, "scout_7")); got != "accepted 1, accepted 1" {
		t.Errorf("the edges: %s", got)
	}
}
