//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// A person on an InspIRCd network offers work to an external agent, answers its question and gets its
// result.
func TestExternalAgentWorksForAPersonOnInspIRCd(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, true)
	var lab *network
	newCrossroads(t, func(h *house) []string {
		lab = newNetwork(t, h, "lab", "1LA")
		return []string{lab.table, bindingTable("true"), agentTable(agent, "")}
	})
	alice := lab.join(t, "alice", "message-tags")
	lab.logIn(t, "alice", "ElizaAcct")
	await(t, "alice to be known", func() bool { return strings.HasPrefix(asksBaton(t, alice, "inbox"), "Nothing") })
	line := func(what, words string) {
		t.Helper()
		next(t, alice, what, func(m bridgetest.IRCMessage) bool {
			return (m.Command == "NOTICE" || m.Command == "PRIVMSG") && m.Params[0] == "alice" && strings.Contains(m.Params[1], words)
		})
	}
	if told := asksBaton(t, alice, "offer researcher@researcher Cite three sources"); !strings.Contains(told, "offer: it is offered now") {
		t.Fatalf("the offer is answered %q", told)
	}
	task := awaitTask(t, agent, 0)
	task.Say(wire.TaskStateInputRequired, "Which topic?")
	line("the accept", "accepts")
	line("the question", "Which topic?")
	if told := asksBaton(t, alice, "say researcher@researcher Topic Y"); strings.Contains(told, "ILLEGAL") {
		t.Errorf("the answer is answered %q", told)
	}
	await(t, "the answer to reach the agent", func() bool { return len(agent.Texts(task)) == 2 })
	task.Say(wire.TaskStateCompleted, "three found")
	line("the result", "three found")
	if n := len(agent.Tasks()); n != 1 {
		t.Errorf("the agent made %d tasks", n)
	}
}

// The configured name of an external agent is its address for callers of each network.
func TestExternalAgentIsFoundByItsName(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, false)
	agent.Card = func(card map[string]any) { card["description"] = "Finds sources." }
	eliza := newPerson(t)
	h := newHomeServer(t, agentTable(agent, ""), fmt.Sprintf("[[bindings]]\nnetwork = \"client\"\nname = %[1]q\ndid = %[1]q\nvouch = true\n", eliza.did), "[limits]\n"+anyAddress)
	ada, voice := logIn(t, h.url()), h.login(t, "eliza", eliza)
	seed, _ := newSeed(t)
	host := newCommandHost(t, h.house, "--key-file", seed)
	await(t, "the agent to be declared", func() bool {
		got, _ := host.tool("whois", map[string]any{"who": "researcher"})
		return strings.Contains(fmt.Sprint(got), string(researcher))
	})
	var filed struct{ Resolved struct{ DID, Name string } }
	for n, offer := range []func(){
		func() {
			ada.must(t, http.StatusCreated, http.MethodPost, "handoffs", map[string]any{"to": "researcher", "title": "Over REST"}, &filed)
			if filed.Resolved.DID != string(researcher) || filed.Resolved.Name != "researcher" {
				t.Errorf("the name is resolved to %+v", filed.Resolved)
			}
		},
		func() {
			if got, code := host.tool("handoff_offer", map[string]any{"to": "researcher", "title": "Over MCP"}); code != "" {
				t.Errorf("the offer over MCP is answered %s %v", code, got)
			}
		},
		func() {
			if told := asksBaton(t, voice, "offer researcher Over IRC"); !strings.Contains(told, "offer: it is offered now") {
				t.Errorf("the offer over IRC is answered %q", told)
			}
		},
	} {
		offer()
		awaitTask(t, agent, n)
	}
	var about struct{ Name, Description string }
	ada.must(t, http.StatusOK, http.MethodGet, "agents/"+string(researcher), nil, &about)
	if about.Name != "researcher" || about.Description != "Finds sources." {
		t.Errorf("the agent is %+v", about)
	}
}
