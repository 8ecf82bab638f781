//go:build interop

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/store/postgrestest"
)

// newReplica makes the house of a replica, which is not started.
func newReplica(t *testing.T, n neighbour) neighbour {
	t.Helper()
	twin := neighbour{newHouse(t), n.name}
	entries, err := os.ReadDir(filepath.Join(n.dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() || e.IsDir() {
			copyAll(t, filepath.Join(n.dir, "data", e.Name()), filepath.Join(twin.dir, "data", e.Name()))
		}
	}
	config, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	listens := strings.NewReplacer(fmt.Sprintf("listen = %q", n.public), fmt.Sprintf("listen = %q", twin.public), n.admin, twin.admin)
	if err := os.WriteFile(twin.config, []byte(listens.Replace(string(config))), 0o600); err != nil {
		t.Fatal(err)
	}
	return twin
}

// Two replicas deliver to one destination. Each delivery arrives once, by one of them. The replica
// with the link is killed, and the other one delivers the rest.
func TestDeliveryIsSharedByReplicas(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for name, begin := range destinations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := neighbour{newHouse(t), "gw.test"}
			n.keep(t, "dsn", server.Schema(t))
			n.shared = fmt.Sprintf("[store]\ndriver = \"postgres\"\ndsn_file = \"dsn\"\n[relay]\nurls = [%q]\n", startHub(t).ClientURL())
			d := begin(t, n)
			await(t, "nothing to wait", func() bool { return !n.waits(t, d.to) })
			twin := newReplica(t, n)
			twin.start(t)
			n.stop(t) // so that the other one takes the link
			back := func() {
				t.Helper()
				if d.back != nil {
					d.back(t)
				}
			}
			back()
			n.start(t)
			d.owe(t, "First-debt")
			await(t, "the first delivery", func() bool { return d.got(t, "First-debt") > 0 && !n.waits(t, d.to) })
			d.owe(t, "Second-debt")
			twin.kill(t)
			back()
			await(t, "the second delivery", func() bool { return d.got(t, "Second-debt") > 0 && !n.waits(t, d.to) })
			if got := d.got(t, "First-debt"); got != 1 {
				t.Errorf("the first was delivered %d times, want once", got)
			}
			if got := d.got(t, "Second-debt"); got > 2 || d.once && got > 1 {
				t.Errorf("the second was delivered %d times", got)
			}
			if code := n.stop(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
		})
	}
}
