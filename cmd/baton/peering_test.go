package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// newStrangers returns homes that do not know each other yet. None has started.
func newStrangers(t *testing.T, names ...string) []neighbour {
	t.Helper()
	var all []neighbour
	for _, name := range names {
		n := neighbour{newHouse(t), name}
		n.settle(t, nil)
		all = append(all, n)
	}
	return all
}

func TestPeerAddLinksHomesAndSendsACanary(t *testing.T) {
	t.Parallel()
	all := newStrangers(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	plan := a.must(t, "peer", "add", b.url(), "--allow-private", "--dry-run")
	for _, want := range []string{"home b.test at " + b.url(), "name", "did:web:b.test has signed this with", "clock", "as here", "versions", "limits", "256 steps", "path", "https"} {
		if !strings.Contains(plan, want) {
			t.Errorf("want %q in the plan:\n%s", want, plan)
		}
	}
	if out := a.must(t, "peer", "list"); strings.Contains(out, "b.test") {
		t.Errorf("a dry run added it: %s", out)
	}
	if out, ok := a.baton(t, "peer", "add", b.url(), "--allow-private"); ok || !strings.Contains(out, "confirm with --yes") {
		t.Errorf("it is added without a yes: %s", out)
	}

	out, ok := a.baton(t, "peer", "add", b.url(), "--allow-private", "--yes")
	if want := "b.test does not know this home yet; there: baton peer add " + a.url(); ok || !strings.Contains(out, want) {
		t.Errorf("want %q in: %s", want, out)
	}
	start := time.Now()
	if out := b.must(t, "peer", "add", a.url(), "--allow-private", "--yes"); !strings.Contains(out, "canary: green") {
		t.Errorf("b's canary: %s", out)
	}
	out = a.must(t, "peer", "add", b.url(), "--allow-private", "--yes", "--reason", "once more")
	if !strings.Contains(out, "canary: green") || !strings.Contains(out, "which is known already") {
		t.Errorf("a's canary: %s", out)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if out := a.must(t, "audit", "list"); !strings.Contains(out, "peer add") || !strings.Contains(out, "once more") {
		t.Errorf("audit list: %s", out)
	}

	a.stop(t) // an added home is there after a restart
	a.start(t)
	alice, _ := a.key(t, 1)
	scout := resident(t, b.house, "scout_7", 2)
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", "Cite three sources on X")
	agree(t, id, "offer", all...)

	if out := a.must(t, "peer", "remove", "b.test", "--dry-run"); out != "dry run: b.test is removed" {
		t.Errorf("a dry run says %q", out)
	}
	a.must(t, "peer", "remove", "b.test", "--yes")
	if out := a.must(t, "peer", "list"); strings.Contains(out, "b.test") {
		t.Errorf("it is still there: %s", out)
	}
	if out, ok := a.baton(t, "peer", "remove", "b.test", "--yes"); ok || !strings.Contains(out, "there is no peer b.test") {
		t.Errorf("removed again: %s", out)
	}
}

func TestPeerOfTheConfigurationIsNeitherAddedNorRemoved(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	if out, ok := a.baton(t, "peer", "add", b.url(), "--allow-private", "--yes"); ok || !strings.Contains(out, "is a peer already") {
		t.Errorf("added: %s", out)
	}
	if out, ok := a.baton(t, "peer", "remove", "b.test", "--yes"); ok || !strings.Contains(out, "remove it there") {
		t.Errorf("removed: %s", out)
	}
	if out, ok := a.baton(t, "peer", "add", a.url(), "--allow-private", "--yes"); ok || !strings.Contains(out, "this gateway's own name") {
		t.Errorf("its own: %s", out)
	}
	for _, wrong := range []string{"b.test", "http://b.test/path", "ftp://b.test"} {
		if out, ok := a.baton(t, "peer", "add", wrong, "--allow-private", "--yes"); ok || !strings.Contains(out, "want https:// and a host") {
			t.Errorf("%s: %s", wrong, out)
		}
	}
	if out, ok := a.baton(t, "peer", "add", b.url(), "--yes"); ok || !strings.Contains(out, "say --allow-private") {
		t.Errorf("without TLS: %s", out)
	}
	if out, ok := a.baton(t, "peer", "add", "http://"+federationtest.FreeAddr(t), "--allow-private", "--yes"); ok || !strings.Contains(out, "read /.well-known/baton") {
		t.Errorf("nobody there: %s", out)
	}
}

// A configuration that names a home which was also added does not start: it would be
// unclear which of the two applies.
func TestPeerInConfigurationAndRecordIsAnError(t *testing.T) {
	t.Parallel()
	all := newStrangers(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	var done struct {
		Peer   struct{ Name string }
		Canary struct{ Green bool }
	}
	out, _ := a.baton(t, "--json", "peer", "add", b.url(), "--allow-private", "--yes")
	document, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(document), &done); err != nil || done.Peer.Name != "b.test" || done.Canary.Green {
		t.Errorf("got %+v, %v of %s", done, err, out)
	}
	a.stop(t)
	text, err := os.ReadFile(a.config)
	if err != nil {
		t.Fatal(err)
	}
	text = fmt.Appendf(text, "\n[[peers]]\nname = \"b.test\"\ndid = \"did:web:b.test\"\nurl = %q\n", b.url())
	if err := os.WriteFile(a.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	a.launch(t)
	if code := a.wait(t); code != 1 || !strings.Contains(a.told(t), "b.test is in the configuration, and was added") {
		t.Errorf("exit code %d", code)
	}
}
