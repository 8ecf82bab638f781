//go:build interop

package main_test

import (
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"baton/bridge/bridgetest"
)

// A person on an InspIRCd network and an agent of the registry offer work to an external agent, answer
// its question and get its result.
func TestExternalAgentWorksForPeopleOfOtherNetworks(t *testing.T) {
	t.Parallel()
	agent := bridgetest.NewA2AAgent(t, wire.TransportProtocolJSONRPC, wire.Version, true)
	var lab *network
	c := newCrossroads(t, func(h *house) []string {
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

	scout := bridgetest.NewAgent(c.url(), "scout_7", newPerson(t).key.Seed())
	if err := scout.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	filed := post(t, scout, write(t, scout, scout.Envelope(handleOf(string(researcher)), "Cite one", payload("task:request", map[string]any{"description": "Cite one"}))))
	second := awaitTask(t, agent, 1)
	if second.Context != filed.Handoff.ID || second.Messages[0].Parts[0].Text() != "Cite one" {
		t.Errorf("the offer of an agent of the registry becomes %s with %v", second, second.Messages[0])
	}
	second.Say(wire.TaskStateCompleted, "one found")
	await(t, "the result to reach the agent of the registry", func() bool {
		messages, _ := inbox(t, scout, "")
		for _, m := range messages {
			if strings.Contains(string(m.raw), "one found") {
				return true
			}
		}
		return false
	})
	if n := len(agent.Tasks()); n != 2 {
		t.Errorf("the agent made %d tasks", n)
	}
}
