//go:build interop

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// rowsOf finds how many rows a migration copied.
var rowsOf = regexp.MustCompile(`\d+ rows of \d+ tables`)

// throughAllDoors offers to bob at a home from each of its entry points and from another home, and
// has him answer. It returns the handoffs.
func throughAllDoors(t *testing.T, a *homeServer, n, other neighbour) []string {
	t.Helper()
	bob := logIn(t, n.url())
	caller := logIn(t, n.url())
	ids := []string{
		caller.offer(t, map[string]any{"to": string(bob.did), "title": "By REST"}),
		caller.offer(t, map[string]any{"to": string(bob.did), "title": "By REST, with a context", "context": map[string]any{"topic": "X"}}),
	}
	agent := resident(t, n.house, "scout_7", 2)
	ids = append(ids, bob.offer(t, map[string]any{"to": agent.DID, "title": "By REST, to an agent"})) // he has a handle from now on
	asked := agent.Envelope(handleOf(string(bob.did)), "Review it", payload("task:request", map[string]any{"description": "By AIRC"}))
	if got := post(t, agent, write(t, agent, asked)); got.Status != http.StatusCreated {
		t.Fatalf("the agent is answered %+v", got)
	}
	eliza := newPerson(t)
	client := a.login(t, "eliza", eliza, append(agentCaps(rfcTags), "echo-message")...)
	join(t, client)
	for _, offer := range a.offers(t, client, eliza, string(bob.did), 1) {
		ids = append(ids, offer.handoff)
	}
	key, _ := n.key(t, 3)
	ids = append(ids, n.must(t, "handoff", "offer", "--key-file", key, "--to", string(bob.did), "--title", "By an operator"))
	remote := other.must(t, "handoff", "offer", "--key-file", key, "--to", string(bob.did), "--title", "By the relay")
	agree(t, remote, "offer", n, other)
	ids = append(ids, remote)
	for _, id := range ids[:2] {
		bob.step(t, id, "accept", nil)
		bob.step(t, id, "complete", map[string]any{"note": "done"})
	}
	n.must(t, "bind", "add", "airc", "scout_7", "did:plc:annannannannannannannann", "--vouch")
	n.must(t, "block", "add", "did:plc:benbenbenbenbenbenbenben")
	n.must(t, "peer", "mode", "other.example", "hold", "--new")
	n.must(t, "token", "create", "--name", "reader", "--scope", "read")
	return ids
}

// A record filled through each entry point is the same on PostgreSQL: a dry run copies all
// of it and takes the copy back, and each handoff reads as before.
func TestMigrateMovesAFullRecordToPostgres(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	server := &homeServer{house: a.house, irc: federationtest.FreeAddr(t)}
	tables := fmt.Sprintf("[irc.client]\nlisten = %q\nchannels = [%q]\n[airc]\ndomain = \"a.test\"\n%s", server.irc, channel, anyRate)
	a.settle(t, all, tables)
	for _, n := range all {
		n.start(t)
		n.ready(t)
	}
	ids := throughAllDoors(t, server, a, b)
	read := func() map[string]string {
		said := map[string]string{}
		for _, id := range ids {
			said[id] = a.must(t, "handoff", "show", id, "--json")
		}
		for _, list := range [][]string{{"bind", "list"}, {"block", "list"}, {"token", "list"}, {"dead", "list"}, {"audit", "list"}, {"webhook", "list"}} {
			said[strings.Join(list, " ")] = a.must(t, append(list, "--json")...)
		}
		return said
	}
	b.stop(t) // nothing moves any more
	before := read()
	a.stop(t)

	secret := filepath.Join(a.dir, "data", "dsn")
	if err := os.WriteFile(secret, []byte(postgrestest.Start(t).Schema(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	planned := a.must(t, "migrate", "--to", "postgres", "--dsn-file", secret, "--dry-run")
	copied := a.must(t, "migrate", "--to", "postgres", "--dsn-file", secret)
	if want := rowsOf.FindString(planned); want == "" || rowsOf.FindString(copied) != want {
		t.Errorf("the dry run says %q, the copy %q", planned, copied)
	}
	a.settle(t, all, tables, "[store]\ndriver = \"postgres\"\ndsn_file = \"dsn\"\n")
	if out := a.must(t, "verify"); !strings.HasPrefix(out, "sound: ") {
		t.Errorf("verify: %s", out)
	}
	a.start(t)
	after := read()
	for what, want := range before {
		if after[what] != want {
			t.Errorf("%s was\n%s\nand is\n%s", what, want, after[what])
		}
	}
}
