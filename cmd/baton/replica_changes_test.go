//go:build interop

package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// newPair starts two gateways of one home, gw.test, which share a record, a NATS server and
// a folder of keys, and beside them another home on that server.
func newPair(t *testing.T) (one, two, other neighbour) {
	t.Helper()
	dsn, nats := postgrestest.Start(t).Schema(t), startHub(t).ClientURL()
	table := "[relay]\nurls = [" + strconv.Quote(nats) + "]\nmax_bytes = 16777216\n"
	all := []neighbour{{newHouse(t), "gw.test"}, {newHouse(t), "gw.test"}, {newHouse(t), "b.test"}}
	one, two, other = all[0], all[1], all[2]
	if err := os.Symlink(filepath.Join(one.dir, "data", "keys"), filepath.Join(two.dir, "data", "keys")); err != nil {
		t.Fatal(err)
	}
	for _, n := range []neighbour{one, two} {
		n.keep(t, "dsn", dsn)
		n.settle(t, nil, table, "[store]\ndriver = \"postgres\"\ndsn_file = \"dsn\"\n")
	}
	other.settle(t, nil, table)
	for _, n := range all { // the first one makes the keys
		n.start(t)
		n.ready(t)
	}
	return one, two, other
}

// keysOf returns the ids of the keys of the home and of its registry, as a gateway publishes
// them.
func keysOf(t *testing.T, n neighbour) (server, registry []string) {
	t.Helper()
	status, text := get(t, n.url()+"/.well-known/did.json")
	keys, err := identity.ParseDocument(federation.HomeID(n.name).DID(), []byte(text))
	if status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	for _, key := range keys {
		server = append(server, federation.KeyID(key))
	}
	var said struct{ Keys []struct{ Kid string } }
	status, text = get(t, n.url()+"/.well-known/airc/registry.json")
	if err := json.Unmarshal([]byte(text), &said); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	for _, key := range said.Keys {
		registry = append(registry, key.Kid)
	}
	return server, registry
}

func TestReplicasShareChanges(t *testing.T) {
	t.Parallel()
	one, two, other := newPair(t)
	listed := func(n neighbour, args ...string) string { return n.must(t, append(args, "list")...) }

	// Each rotates the other one's rotated keys: no key is lost.
	for i, n := range []neighbour{one, two, one} {
		n.must(t, "keys", "rotate", "server")
		n.must(t, "keys", "rotate", "registry")
		server, registry := keysOf(t, n)
		if len(server) != i+2 || len(registry) != i+2 {
			t.Errorf("after %d rotations there are the keys %v and %v", i+1, server, registry)
		}
		for _, each := range []neighbour{one, two} {
			await(t, "the rotated keys", func() bool {
				s, r := keysOf(t, each)
				return slices.Equal(s, server) && slices.Equal(r, registry)
			})
		}
	}

	// A home added at one receives the offers made at the other.
	other.baton(t, "peer", "add", one.url(), "--allow-private", "--yes") // which does not know it yet
	if out := one.must(t, "peer", "add", other.url(), "--allow-private", "--yes"); !strings.Contains(out, "canary: green") {
		t.Errorf("canary: %s", out)
	}
	await(t, "the home at the other gateway", func() bool { return strings.Contains(listed(two, "peer"), "b.test") })
	alice, _ := two.key(t, 1)
	scout := resident(t, other.house, "scout_7", 2)
	id := two.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", "Cite three sources on X")
	agree(t, id, "offer", one, two, other)

	// Deliveries to it wait while an operator holds them, and no longer.
	two.must(t, "peer", "mode", "b.test", "hold")
	for _, n := range []neighbour{one, two} {
		await(t, "the mode", func() bool { return strings.Contains(listed(n, "peer"), "hold") })
	}
	id = one.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", "Held")
	await(t, "a delivery that fails", func() bool { return strings.Contains(listed(two, "feed"), "on hold") })
	two.must(t, "peer", "mode", "b.test", "allow")
	agree(t, id, "offer", one, two, other)

	// A source blocked at one is refused at the other.
	mallory := logIn(t, one.url())
	status := func() int {
		response, err := http.DefaultClient.Do(mallory.request(t, http.MethodGet, "inbox", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	two.must(t, "block", "add", string(mallory.did))
	await(t, "the block", func() bool { return status() == http.StatusForbidden })
	two.must(t, "block", "remove", string(mallory.did))
	await(t, "the end of the block", func() bool { return status() == http.StatusOK })

	// State read from the record each time holds at once.
	two.must(t, "bind", "add", "airc", "ann", "did:plc:annannannannannannannann")
	if out := listed(one, "bind"); !strings.Contains(out, "did:plc:annannannannannannannann") {
		t.Errorf("bindings: %s", out)
	}
	one.must(t, "feed", "hold", "b.test", "--reason", "a drill")
	if out := two.must(t, "feed", "shape"); !strings.Contains(out, "a drill") {
		t.Errorf("holds: %s", out)
	}
	var made struct{ Token string }
	one.asks(t, &made, "token", "create", "--scope", "read", "--name", "ann")
	ann := stranger{two.house, filepath.Join(two.dir, "data", "ann.token")}
	two.keep(t, "ann.token", made.Token)
	two.must(t, ann.flags("link", "list")...)
	one.must(t, "token", "revoke", "ann")
	ann.refused(t, "link", "list")

	one.must(t, "peer", "remove", "b.test", "--yes")
	await(t, "the home to be gone", func() bool { return !strings.Contains(listed(two, "link"), "b.test") })
	for _, n := range []neighbour{one, two} {
		if code := n.stop(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}
