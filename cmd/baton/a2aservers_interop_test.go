//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"baton/federation"
	"baton/federation/federationtest"
)

// agentServer starts an agent on a server of another SDK, and returns its address.
func agentServer(t *testing.T, program ...string) (address string) {
	t.Helper()
	host := federationtest.FreeAddr(t)
	_, port, _ := strings.Cut(host, ":")
	for i := range program {
		program[i] = strings.ReplaceAll(program[i], "PORT", port)
	}
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	var told strings.Builder
	cmd.Stderr = &told
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(clients(t), "node", "node_modules"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", program[0], told.String())
		}
	})
	return "http://" + host
}

// The servers come from their registries, in the versions that .ci/run pins. A person on an InspIRCd
// network and a caller of REST offer work to each of them, the gateway is killed while they work, and
// the servers count their tasks.
func TestServersOfOtherA2ASDKsTakeWork(t *testing.T) {
	t.Parallel()
	python := func(environment string) string { return filepath.Join(clients(t), environment, "bin", "python") }
	servers := map[string]string{
		"python": agentServer(t, python("a2a-server"), "testdata/clients/a2aagent.py", "PORT", "sdk"),
		"old":    agentServer(t, python("a2a-server-0.3"), "testdata/clients/a2aagent.py", "PORT", "sdk"),
		"adk":    agentServer(t, python("a2a-adk"), "testdata/clients/a2aagent.py", "PORT", "adk"),
		"js":     agentServer(t, "node", "testdata/clients/a2aagent.js", "PORT"),
	}
	var lab *network
	v := newCrossroads(t, func(h *house) []string {
		lab = newNetwork(t, h, "lab", "1LA")
		tables := []string{lab.table, bindingTable("true")}
		for name, address := range servers {
			tables = append(tables, fmt.Sprintf("[[a2a.agents]]\nname = %q\ncard = %q\nallow_private = true\n", name, address))
		}
		return tables
	})
	alice := lab.join(t, "alice", "message-tags")
	lab.logIn(t, "alice", "ElizaAcct")
	await(t, "alice to be known", func() bool { return strings.HasPrefix(asksBaton(t, alice, "inbox"), "Nothing") })
	ada := logIn(t, v.url())
	offered := map[string][]string{}
	for name := range servers {
		if told := asksBaton(t, alice, "offer "+name+"@"+name+" Cite for alice"); !strings.Contains(told, "offer: it is offered now") {
			t.Fatalf("the offer to %s is answered %q", name, told)
		}
		offered[name] = append(offered[name], ada.offer(t, map[string]any{"to": federation.DID("did:web:gw.test:a2a:" + name), "title": "Cite for ada"}))
	}
	for name, address := range servers {
		await(t, "both tasks of "+name, func() bool { _, n := get(t, address+"/count"); return n == "2" })
		await(t, "the accept of "+name, func() bool { return ada.handoff(t, offered[name][0]).State == "assigned" })
	}
	v.kill(t)
	for _, address := range servers {
		response, err := http.Post(address+"/finish", "", http.NoBody) //nolint:noctx // a test's own server
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	v.start(t)
	var page struct {
		Items []struct{ ID, Title, State, Offeree string }
	}
	await(t, "all results", func() bool {
		v.asks(t, &page, "handoff", "list", "--state", "completed")
		return len(page.Items) == 2*len(servers)
	})
	for name, address := range servers {
		if got := ada.handoff(t, offered[name][0]).verbs(); !strings.HasPrefix(got, "offer, accept") || !strings.HasSuffix(got, "complete three found") {
			t.Errorf("the steps of %s are %s", name, got)
		}
		if _, n := get(t, address+"/count"); n != "2" {
			t.Errorf("%s made %s tasks, want 2", name, n)
		}
	}
}
