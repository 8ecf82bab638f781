//go:build interop

package main_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// followed checks that a freeq server follows a handoff of this gateway to its end, shows each step
// once, and accepts each step from the same party.
func followed(t *testing.T, server *bridgetest.Freeq, handoff, takes string, step func(verb string)) {
	t.Helper()
	id, err := federation.ParseEventID(handoff)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]federation.State{
		"offer": federation.Offered, "accept": federation.Assigned, "decline": federation.Declined, "progress": federation.Assigned, "complete": federation.Completed,
	}
	verbs := []string{"offer", takes, "progress", "complete"}
	if takes == "decline" {
		verbs = verbs[:2]
	}
	for _, verb := range verbs {
		if verb != "offer" {
			step(verb)
		}
		if err := server.AwaitState(patient(t), id, states[verb]); err != nil {
			t.Fatalf("after the %s freeq has it %q: %v", verb, server.State(id), err)
		}
	}
	var shown []string
	for ctx := patient(t); len(shown) < len(verbs) && ctx.Err() == nil; time.Sleep(lookEach) {
		shown = fakeServer{server}.Verbs(id)
	}
	if len(shown) != len(verbs) {
		t.Errorf("users of freeq are shown %q, want %q", shown, verbs)
	}
}

// A server accepts an accept only from the DID named by the offer, which has to be the signing key.
func TestFreeqAcceptsAHandoffBetweenHTTPAgents(t *testing.T) {
	t.Parallel()
	for _, takes := range []string{"accept", "decline"} {
		t.Run(takes, func(t *testing.T) {
			t.Parallel()
			w := newFreeqWorld(t)
			from, to := logIn(t, w.url()), logIn(t, w.url())
			if out, err := w.command(t, "bind", "add", "fq", string(from.did), string(from.did)).CombinedOutput(); err != nil {
				t.Fatalf("bind: %v %s", err, out)
			}
			id := from.offer(t, map[string]any{"to": to.did, "title": title, "channel": channel})
			followed(t, w.server, id, takes, func(verb string) { to.step(t, id, verb, nil) })
			var shown struct{ State string }
			from.must(t, http.StatusOK, http.MethodGet, "handoffs/"+id, nil, &shown)
			if want := map[string]string{"accept": "completed", "decline": "declined"}[takes]; shown.State != want {
				t.Errorf("it is %q here", shown.State)
			}
		})
	}
}

func TestFreeqAcceptsAHandoffInRFCTags(t *testing.T) {
	t.Parallel()
	var server *bridgetest.Freeq
	c := newCrossroads(t, func(h *house) []string {
		var table string
		server, table = newFreeq(t, h, "fq", channel)
		return []string{table}
	})
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	zoe := user{person: newPerson(t)}
	zoe.IRCClient = c.login(t, "zoe", zoe.person, agentCaps(dialects()...)...)
	join(t, zoe.IRCClient)
	finn := (&world{house: c.house}).hire(t, "finn", skill)
	here := onIRC(c.eliza, rfcTags)
	first := here.offer(t, finn.DID)
	finn.next(t, "a handshake", func(m message) bool { return m.Payload.Type == "system:handshake_request" })
	consent(t, finn.Agent, handleOf(here.did))
	finn.next(t, "the first offer", isAbout("offer", first))
	for name, there := range map[string]side{"an IRC user": onIRC(zoe, rfcTags), "an AIRC agent": onAIRC(finn, here.did)} {
		t.Run(name, func(t *testing.T) {
			id := here.offer(t, there.did)
			there.sees(t, "offer", id, federation.Offered)
			followed(t, server, id, "accept", func(verb string) { there.step(t, verb, id) })
		})
	}
}

// A server takes an answer only from the DID that the offer names. The gateway has no key of the own
// DID of an agent over HTTP: the agent is told to sign the step, and then the server takes it.
func TestFreeqAnswerToAnOwnDIDIsSignedByTheAgent(t *testing.T) {
	t.Parallel()
	for verb, state := range map[string]federation.State{"decline": federation.Declined, "accept": federation.Assigned} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			w := newFreeqWorld(t)
			p := newPerson(t)
			agent := logInWith(t, w.url(), p.key)
			id, err := w.alice.Offer(channel, agent.did, title)
			if err != nil {
				t.Fatal(err)
			}
			await(t, "the offer", func() bool { return len(agent.reads(t, "")) > 0 })
			var refused struct{ Code, Detail string }
			agent.must(t, http.StatusUnauthorized, http.MethodPost, "handoffs/"+id.String()+"/"+verb, map[string]any{}, &refused)
			want := "signed by " + string(agent.did) + " itself, in act tags for " + channel + ": sign the step, or ask for an offer to did:key:"
			if refused.Code != "need-signature" || !strings.Contains(refused.Detail, want) {
				t.Errorf("the step is refused with %+v, want %q", refused, want)
			}
			s := actTags.step(p, channel, verb, id.String(), extras{})
			agent.must(t, http.StatusAccepted, http.MethodPost, "handoffs/"+id.String()+"/"+verb, map[string]any{
				"document": s.document, "signature": s.tags[vendor+"sig"],
			}, nil)
			if err := w.server.AwaitState(patient(t), id, state); err != nil {
				t.Errorf("freeq has it %q: %v", w.server.State(id), err)
			}
		})
	}
}
