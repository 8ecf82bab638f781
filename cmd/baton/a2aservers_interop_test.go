//go:build interop

package main_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
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

// The servers come from their registries, in the versions that .ci/run pins. A participant of each
// network offers work to each of them. The gateway is killed before it sends the work, while it sends it,
// after it sent all of it, and before the results; the servers count their tasks.
func TestA2AServersOfOtherSDKsTakeWork(t *testing.T) {
	t.Parallel()
	python := func(environment string) string { return filepath.Join(clients(t), environment, "bin", "python") }
	servers := map[string]string{
		"python": agentServer(t, python("a2a-server"), "testdata/clients/a2aagent.py", "PORT", "sdk"),
		"old":    agentServer(t, python("a2a-server-0.3"), "testdata/clients/a2aagent.py", "PORT", "sdk"),
		"adk":    agentServer(t, python("a2a-adk"), "testdata/clients/a2aagent.py", "PORT", "adk"),
		"js":     agentServer(t, "node", "testdata/clients/a2aagent.js", "PORT"),
	}
	r := &macpHouse{house: newHouse(t), address: federationtest.FreeAddr(t)}
	r.keep(t, "eliza.token", macpToken+"eliza")
	r.keep(t, "other.token", macpToken+"other")
	north := newNetwork(t, r.house, "north", "3NO")
	tables := []string{unlimited, r.table(), north.table}
	for name, address := range servers {
		tables = append(tables, fmt.Sprintf("[[a2a.agents]]\nname = %q\ncard = %q\nallow_private = true\n", name, address))
	}
	b := talkativeIn(t, r.house, tables...)
	workers := b.workers(t, north)
	eliza := r.participant(t, "eliza")
	offers := len(workers) + 1 // with eliza's
	sessions := 0
	for name := range servers {
		b.asks(t, &struct{}{}, "feed", "hold", name, "--reason", "kill the gateway first")
		did := federation.DID("did:web:gw.test:a2a:" + name)
		for _, w := range workers {
			w.offers(t, worker{network: name, did: did, address: name + "@" + name}, "Cite for "+w.network)
		}
		sessions++
		session := fmt.Sprintf("00000000-0000-4000-8000-%012d", sessions)
		if err := eliza.Start(t.Context(), session, "Cite for MACP", "eliza", string(did)); err != nil {
			t.Fatal(err)
		}
		say(t, eliza, session, macpmode.TypeOffer, "m1", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: string(did)})
	}
	b.kill(t)
	for name, address := range servers {
		if _, n := get(t, address+"/count"); n != "0" {
			t.Errorf("%s made %s tasks before the work was sent", name, n)
		}
	}
	b.death = whileFiling // the first accept: other work was sent, and its task is not on record
	b.start(t)
	release := func(names ...string) {
		for _, name := range names { // the gateway may end first, and some may be released already
			_ = neighbour{r.house, "gw.test"}.runs(t, io.Discard, io.Discard, "feed", "release", name)
		}
	}
	release("python", "adk", "js") // the other one lists no tasks: an operator decides about work without an answer
	await(t, "the death of the gateway", b.gone)
	b.death = ""
	b.start(t)
	release(slices.Collect(maps.Keys(servers))...)
	var page struct {
		Items []struct{ ID, Title, State, Offeree string }
	}
	listed := func(state string) func() bool {
		return func() bool {
			b.asks(t, &page, "handoff", "list", "--state", state, "--limit", "200")
			return len(page.Items) == offers*len(servers)
		}
	}
	await(t, "all accepts", listed("assigned"))
	b.kill(t)
	b.start(t)
	for name := range servers {
		await(t, "the tasks of "+name+" to be followed again", func() bool {
			var shown struct{ Agent struct{ Tasks int } }
			b.asks(t, &shown, "a2a", "show", name)
			return shown.Agent.Tasks == offers
		})
	}
	b.kill(t)
	http.DefaultClient.CloseIdleConnections() // a server may close an idle one now, and a POST is not sent again
	for _, address := range servers {
		response, err := http.Post(address+"/finish", "", http.NoBody) //nolint:noctx // a test's own server
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	b.start(t)
	await(t, "all results", listed("completed"))
	for _, item := range page.Items {
		if item.Title != "Cite for REST" { // only a party reads the steps
			continue
		}
		if got := b.http.handoff(t, item.ID).verbs(); !strings.HasPrefix(got, "offer, accept") || !strings.HasSuffix(got, "complete three found") {
			t.Errorf("the steps of %s for %s are %s", item.Title, item.Offeree, got)
		}
	}
	for name, address := range servers {
		if _, n := get(t, address+"/count"); n != strconv.Itoa(offers) {
			t.Errorf("%s made %s tasks, want %d", name, n, offers)
		}
	}
}
