//go:build interop

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// newDirectories makes a voice directory and a ".handoffs" directory, and returns them with their
// tables. The DID is bob of the voice directory.
func newDirectories(t *testing.T, dir, did string) (w *filesWorld, tables string) {
	t.Helper()
	w = &filesWorld{voice: filepath.Join(dir, "calls"), tasks: filepath.Join(dir, "tasks")}
	for _, path := range []string{w.voice, w.tasks} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "pair.key")
	if err := os.WriteFile(secret, []byte(voiceSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	return w, fmt.Sprintf(`[[files.voice]]
name = "calls"
dir = %q
agents = { bob = %q }
[[files.voice.pairs]]
agents = ["bob", "alice"]
secret_file = %q
[[files.tasks]]
name = "research"
dir = %q
trusted = ["scanner"]
`, w.voice, did, secret, w.tasks)
}

// newFilesOnFreeq starts a gateway with a freeq server, a voice directory and a ".handoffs"
// directory. The freeq user alice is bob of the voice directory; records name her by her DID.
func newFilesOnFreeq(t *testing.T) (*freeqWorld, *filesWorld) {
	t.Helper()
	user := string(didOf(seeded("alice")))
	w, tables := newDirectories(t, t.TempDir(), user)
	server := newFreeqWorld(t, tables)
	w.world = &world{house: server.house, key: person{key: seeded("alice"), did: user}}
	return server, w
}

func TestFilesCrossToFreeq(t *testing.T) {
	t.Parallel()
	server, w := newFilesOnFreeq(t)
	for _, d := range directories() {
		t.Run(d.name, func(t *testing.T) { server.crossFiles(t, w, d) })
	}
}

// crossFiles offers from a directory to freeq, and back to the key that signed this offer: a freeq
// server takes the steps of an agent from the very DID of the offer.
func (w *freeqWorld) crossFiles(t *testing.T, files *filesWorld, d born) {
	t.Helper()
	ended := d.offer(t, files, true)
	said, err := w.server.AwaitLine(patient(t), "an offer from the directory", func(m map[string]any) bool {
		tags, _ := m["tags"].(map[string]any)
		return tags["+freeq.at/act-verb"] == "offer" && tags["+freeq.at/act-for"] == string(d.maker)
	})
	if err != nil {
		t.Fatal(err)
	}
	tags, _ := said["tags"].(map[string]any)
	id, err := federation.ParseEventID(fmt.Sprint(tags["+freeq.at/eventid"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		verb  federation.Verb
		state federation.State
	}{{federation.Accept, federation.Assigned}, {federation.Complete, federation.Completed}} {
		if _, err := w.alice.Step(w.server.Venue(id, w.alice.DID), id, step.verb, ""); err != nil {
			t.Fatal(err)
		}
		w.stands(t, id, step.state)
	}
	ended(t)

	back := w.offer(t, fmt.Sprint(tags["+freeq.at/from"]), "from freeq")
	states := map[string]federation.State{"accept": federation.Assigned, "complete": federation.Completed}
	d.works(t, files, func(verb string) { w.stands(t, back, states[verb]) })
}
