//go:build interop

package main_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// Users of IRC networks write to the DID of a kept key, in tags and by commands.
func TestReplyOfIRCUsersReachesItsAuthor(t *testing.T) {
	t.Parallel()
	writer := newPerson(t)
	s := newHomeServer(t, "[[bindings]]\nnetwork = \"client\"\nname = \""+writer.did+"\"\ndid = \""+writer.did+"\"\nvouch = true\n[limits]\n"+anyAddress)
	author, _, kept := introduced(t, s.house)
	client := s.login(t, "writer", writer, agentCaps(rfcTags)...)
	join(t, client)
	for name, offer := range map[string]func(t *testing.T, title string){
		"a signed offer in a channel": func(t *testing.T, title string) {
			t.Helper()
			tags, _ := writer.offer(channel, kept, map[string]string{"handoff-task": title})
			send(t, client, tags)
		},
		"a signed offer in private": func(t *testing.T, title string) {
			t.Helper()
			tags, _ := writer.offer(privately(writer.did, kept), kept, map[string]string{"handoff-task": title})
			if err := client.Send(tags, "TAGMSG", kept); err != nil {
				t.Fatal(err)
			}
		},
		"a command": func(t *testing.T, title string) {
			t.Helper()
			if answer := asksBaton(t, client, "offer "+kept+" "+title); !strings.Contains(answer, "it is offered now") {
				t.Fatalf("the command is answered %q", answer)
			}
		},
		"REST, signed": func(t *testing.T, title string) {
			t.Helper()
			offersSigned(t, s.house, kept, title)
		},
	} {
		t.Run(name, func(t *testing.T) {
			title := "offered by " + name
			offer(t, title)
			author.received(t, title)
			s.works(t, author, title)
		})
	}
	t.Run("text", func(t *testing.T) {
		if err := client.Send(nil, "PRIVMSG", "Baton", "say "+kept+" hello over IRC"); err != nil {
			t.Fatal(err)
		}
		author.hears(t, "hello over IRC")
	})
}

// A freeq user writes to the DID shown for an agent on freeq, which is the key that the gateway
// keeps for the agent. The agent accepts the offer, because act-to of the offer is that key.
func TestReplyOfAFreeqUserReachesItsAuthor(t *testing.T) {
	t.Parallel()
	w := newFreeqWorld(t, "[limits]\n"+anyAddress)
	agent := logIn(t, w.url())
	first, err := federation.ParseEventID(agent.offer(t, map[string]any{"to": w.alice.DID, "title": "the first offer"}))
	if err != nil {
		t.Fatal(err)
	}
	w.stands(t, first, federation.Offered)
	kept := w.signerOf(first)
	if kept == agent.did || kept == "" {
		t.Fatalf("the server shows the agent as %q, want a kept key", kept)
	}
	for _, target := range []string{channel, string(kept)} {
		t.Run("to "+target, func(t *testing.T) {
			title := "offered in " + target
			id, err := w.alice.Offer(target, kept, title)
			if err != nil {
				t.Fatal(err)
			}
			if got := agent.lists(t, title); got.Offeree != string(agent.did) {
				t.Fatalf("the offer is %+v, want one to %s", got, agent.did)
			}
			for _, step := range []struct {
				verb  string
				state federation.State
			}{{"accept", federation.Assigned}, {"complete", federation.Completed}} {
				agent.must(t, http.StatusAccepted, http.MethodPost, "handoffs/"+id.String()+"/"+step.verb, nil, nil)
				w.stands(t, id, step.state)
				await(t, "the gateway to have "+string(step.state), func() bool { return agent.lists(t, title).State == string(step.state) })
			}
		})
	}
}

// signerOf returns the DID written by the gateway for the offerer of a handoff, "" before the offer
// is written.
func (w *freeqWorld) signerOf(id federation.HandoffID) federation.DID {
	for _, m := range w.server.Said() {
		if tags, _ := m["tags"].(map[string]any); tags["+freeq.at/eventid"] == id.String() {
			from, _ := tags["+freeq.at/from"].(string)
			return federation.DID(from)
		}
	}
	return ""
}

// offersSigned lets a new caller make an offer with its own signature.
func offersSigned(t *testing.T, h *house, to, title string) {
	t.Helper()
	p := newPerson(t)
	c := logInWith(t, h.url(), p.key)
	var place struct{ Target string }
	c.must(t, http.StatusOK, http.MethodGet, "place?to="+url.QueryEscape(to), nil, &place)
	fields := map[string]string{"handoff-task": title}
	tags, id := p.offer(place.Target, to, fields)
	for name, value := range tags {
		if name, ours := strings.CutPrefix(name, vendor); ours && strings.HasPrefix(name, "handoff") {
			fields[name] = value
		}
	}
	document := canonical(fields, p.did, place.Target, id)
	c.must(t, http.StatusCreated, http.MethodPost, "handoffs", map[string]any{"document": document, "signature": tags[vendor+"sig"]}, nil)
}
