package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// accountsHub starts a hub with the accounts of homes, as "baton relay accounts" writes them,
// and gives each home its seed. It returns the table with which a home reaches the hub.
func accountsHub(t *testing.T, all []neighbour) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"relay", "accounts", "--out", dir}
	for _, n := range all {
		args = append(args, n.name)
	}
	all[0].must(t, args...)
	options, err := server.ProcessConfigFile(filepath.Join(dir, "hub.conf"))
	if err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.StoreDir, options.NoSigs, options.NoLog = "127.0.0.1", -1, t.TempDir(), true, true
	hub, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	hub.Start()
	t.Cleanup(func() { hub.Shutdown(); hub.WaitForShutdown() })
	if !hub.ReadyForConnections(patience) {
		t.Fatal("the hub does not start")
	}
	for _, n := range all {
		seed, err := os.ReadFile(filepath.Join(dir, n.name+".nk"))
		if err != nil {
			t.Fatal(err)
		}
		n.keep(t, "hub.nk", strings.TrimSpace(string(seed)))
	}
	return fmt.Sprintf("[relay.hub]\nurls = [%q]\nnkey_file = \"hub.nk\"\n", hub.ClientURL())
}

// unreachableURL is the address of a home behind NAT: no host answers there.
const unreachableURL = "https://127.0.0.1:1"

// behindNAT writes the configuration of a home whose peers have the given lines beside name
// and did, and no reachable address.
func (n neighbour) behindNAT(t *testing.T, all []neighbour, peer string, tables ...string) {
	t.Helper()
	var text strings.Builder
	text.WriteString("[fetch]\nallow_private = true\n")
	for _, other := range all {
		if other.name != n.name {
			fmt.Fprintf(&text, "[[peers]]\nname = %q\ndid = %q\n%s\n", other.name, "did:web:"+other.name, peer)
		}
	}
	n.named(t, append([]string{text.String()}, tables...)...)
}

// Homes behind NAT have no address in reach of the other one. They link, find each other's
// users and deliver to them only through the hub.
func TestHubLinksHomesBehindNAT(t *testing.T) {
	t.Parallel()
	for name, peer := range map[string]string{
		"no host answers at the address": fmt.Sprintf("url = %q", unreachableURL),
		"no address is configured":       "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := newNeighbours(t, "a.test", "b.test")
			table := accountsHub(t, all)
			for _, n := range all {
				n.behindNAT(t, all, peer, table)
				n.start(t)
			}
			for _, n := range all {
				n.ready(t)
			}
			a, b := all[0], all[1]
			id, bob := takesOn(t, a, b, "Behind two walls")
			b.must(t, "handoff", "complete", id, "--key-file", bob)
			agree(t, id, "offer accept complete", a, b)
			for _, n := range all {
				await(t, n.name+" to find nothing wrong", func() bool {
					out, ok := n.baton(t, "relay", "check")
					return ok && strings.Contains(out, "from ") && strings.Contains(out, "answers through the hub")
				})
			}
		})
	}
}

// A home whose key is not known here sends batches that stay in the stream. The operator of
// the receiver reads why, in the log and by relay check.
func TestHubHomeThatCannotBeVerifiedIsReported(t *testing.T) {
	t.Parallel()
	hub := startHub(t) // without accounts, it vouches for no home
	all := newNeighbours(t, "a.test", "b.test")
	for _, n := range all {
		n.behindNAT(t, all, fmt.Sprintf("url = %q", unreachableURL), fmt.Sprintf("[relay.hub]\nurls = [%q]\n", hub.ClientURL()))
		n.start(t)
	}
	for _, n := range all {
		await(t, n.name+" to say why", func() bool {
			return strings.Contains(n.told(t), "message of another home not verified")
		})
		out, ok := n.baton(t, "relay", "check")
		if ok || !strings.Contains(out, "set key in [[peers]]") {
			t.Errorf("relay check at %s: %s", n.name, out)
		}
	}
}
