//go:build interop

package main_test

import (
	"strings"
	"testing"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"baton/bridge/bridgetest"
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
