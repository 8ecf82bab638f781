//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// An AIRC agent offers work to the declared name of an agent without a signed
// step.
func TestAIRCAgentsReachDeclaredNames(t *testing.T) {
	t.Parallel()
	w := &world{house: newHouse(t, "[limits]\n"+anyAddress)}
	w.start(t)
	w.ready(t)
	scout := w.hire(t, "scout_7")
	for _, name := range []string{"finder", "deep-reader"} {
		reader := logIn(t, w.url())
		reader.must(t, http.StatusOK, http.MethodPut, "agents/"+string(reader.did), map[string]any{"name": name}, nil)
		request := scout.Envelope(name, "Review it", payload("task:request", map[string]any{"description": "Review it"}))
		if got := post(t, scout.Agent, write(t, scout.Agent, request)); got.Status != http.StatusCreated {
			t.Errorf("the offer to %s is answered %+v", name, got)
		}
		plain := scout.Envelope(name, "hello "+name, nil)
		if got := post(t, scout.Agent, write(t, scout.Agent, plain)); got.Status != http.StatusCreated {
			t.Errorf("the message to %s is answered %+v", name, got)
		}
		if entries := reader.reads(t, ""); len(entries) == 0 || entries[0].Step.Verb != "offer" {
			t.Errorf("the inbox of %s has %+v", name, entries)
		}
	}
	unknown := scout.Envelope("nobody", "hello", nil)
	if got := post(t, scout.Agent, write(t, scout.Agent, unknown)); got.Status != http.StatusNotFound {
		t.Errorf("an unknown name is answered %+v", got)
	}
}

// An IRC user reads the messages of an agent under the name that the agent declared last.
func TestIRCShowsTheNewNameOfAnAgent(t *testing.T) {
	t.Parallel()
	eliza := newPerson(t)
	s := newHomeServer(t, fmt.Sprintf("[[bindings]]\nnetwork = \"client\"\nname = %[1]q\ndid = %[1]q\nvouch = true\n", eliza.did), "[limits]\n"+anyAddress)
	voice, ada := s.login(t, "eliza", eliza), logIn(t, s.url())
	for i, name := range []string{"finder", "seeker"} {
		ada.must(t, http.StatusOK, http.MethodPut, "agents/"+string(ada.did), map[string]any{"name": name}, nil)
		text := fmt.Sprintf("message %d", i)
		ada.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": "eliza", "text": text}, nil)
		got := next(t, voice, text, func(m bridgetest.IRCMessage) bool {
			return m.Command == "PRIVMSG" && strings.Contains(m.Params[len(m.Params)-1], text)
		})
		if got.Nick != name {
			t.Errorf("the message of %s is from %s", name, got.Nick)
		}
		if told := asksBaton(t, voice, "say "+name+" hello"); strings.Contains(told, "unknown-name") {
			t.Errorf("a message to %s is answered %q", name, told)
		}
	}
}
