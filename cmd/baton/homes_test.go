package main_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/identity"
)

// neighbour is a house with the home of a name, beside others.
type neighbour struct {
	*house
	name string
}

// newNeighbours returns homes that know each other, with the given tables at all of
// them. None has started.
func newNeighbours(t *testing.T, names ...string) []neighbour {
	t.Helper()
	var all []neighbour
	for _, name := range names {
		all = append(all, neighbour{newHouse(t), name})
	}
	for _, n := range all {
		n.settle(t, all)
	}
	return all
}

// settle writes the configuration of a home among others.
func (n neighbour) settle(t *testing.T, all []neighbour, tables ...string) {
	t.Helper()
	var text strings.Builder
	text.WriteString("[fetch]\nallow_private = true\n")
	for _, other := range all {
		if other.name != n.name {
			fmt.Fprintf(&text, "[[peers]]\nname = %q\ndid = %q\nurl = %q\n", other.name, "did:web:"+other.name, other.url())
		}
	}
	n.named(t, append([]string{text.String()}, tables...)...)
}

// named writes the configuration of a home under its name.
func (n neighbour) named(t *testing.T, tables ...string) {
	t.Helper()
	n.configure(t, tables...)
	config, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.config, []byte(strings.Replace(string(config), `"gw.test"`, fmt.Sprintf("%q", n.name), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// key writes a seed for the commands, and returns the file and the DID.
func (n neighbour) key(t *testing.T, seed byte) (file, did string) {
	t.Helper()
	raw := make([]byte, 32)
	raw[0] = seed
	file = filepath.Join(n.dir, fmt.Sprintf("seed-%d", seed))
	if err := os.WriteFile(file, []byte(hex.EncodeToString(raw)), 0o600); err != nil {
		t.Fatal(err)
	}
	public, _ := ed25519.NewKeyFromSeed(raw).Public().(ed25519.PublicKey)
	return file, string(identity.KeyDID(public))
}

// baton runs a command against a home and returns its output, and whether it
// succeeded.
func (n neighbour) baton(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	err := n.runs(t, &out, &out, args...)
	return strings.TrimSpace(out.String()), err == nil
}

// must runs a command that has to succeed, and returns its standard output.
func (n neighbour) must(t *testing.T, args ...string) string {
	t.Helper()
	var out, warnings bytes.Buffer
	if err := n.runs(t, &out, &warnings, args...); err != nil {
		t.Fatalf("baton %s: %v: %s%s", strings.Join(args, " "), err, &out, &warnings)
	}
	return strings.TrimSpace(out.String())
}

func (n neighbour) runs(t *testing.T, out, warnings io.Writer, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--config", n.config}, args...)...)
	cmd.Stdout, cmd.Stderr = out, warnings
	return cmd.Run()
}

// shown is a handoff as shown by a home.
type shown struct {
	State, Home string
	Version     int
	Assignee    string
	Offerer     string
	Steps       []struct {
		EventID string `json:"event_id"`
		Verb    string
	}
}

// show returns a handoff as a home has it; the zero value if it has none. It asks as the
// command does, without a process: tests wait for steps by asking again and again.
func (n neighbour) show(t *testing.T, id string) shown {
	t.Helper()
	handoff, err := n.operator.Handoff(t.Context(), id)
	if err != nil {
		return shown{}
	}
	text, err := json.Marshal(handoff)
	var s shown
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verbs returns the steps of a handoff in order.
func (s shown) verbs() string {
	var all []string
	for _, step := range s.Steps {
		all = append(all, step.Verb)
	}
	return strings.Join(all, " ")
}

// agree waits until all homes have the same steps of a handoff in the same order.
func agree(t *testing.T, id, verbs string, homes ...neighbour) {
	t.Helper()
	for _, n := range homes {
		await(t, n.name+" to have "+verbs, func() bool { return n.show(t, id).verbs() == verbs })
	}
	first := homes[0].show(t, id)
	for _, n := range homes[1:] {
		if got := n.show(t, id); !slices.Equal(got.Steps, first.Steps) || got.State != first.State || got.Home != first.Home {
			t.Errorf("%s has %+v, and %s %+v", homes[0].name, first, n.name, got)
		}
	}
}

func TestHomesCompleteAHandoff(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t)
	b.start(t)
	alice, _ := a.key(t, 1)
	scout := resident(t, b.house, "scout_7", 2)
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", "Cite three sources on X")
	agree(t, id, "offer", a, b)
	bob, _ := b.key(t, 2) // scout's own key
	b.must(t, "handoff", "accept", id, "--key-file", bob)
	agree(t, id, "offer accept", a, b)
	b.must(t, "handoff", "progress", id, "--key-file", bob, "--note", "half way")
	b.must(t, "handoff", "complete", id, "--key-file", bob)
	agree(t, id, "offer accept progress complete", a, b)
	passport := filepath.Join(a.dir, "passport.json")
	a.must(t, "handoff", "export", id, "-o", passport)
	a.must(t, "handoff", "verify", passport)
	if out, ok := b.baton(t, "handoff", "export", id, "-o", passport); ok || !strings.Contains(out, "its home is a.test") {
		t.Errorf("a guest issues a passport: %s", out)
	}
	for _, n := range all {
		if got := n.show(t, id); got.Home != "a.test" || got.State != "completed" {
			t.Errorf("%s: %+v", n.name, got)
		}
		n.stop(t)
		if out, ok := n.baton(t, "verify"); !ok {
			t.Errorf("verify at %s: %s", n.name, out)
		}
	}
}

func TestHomesLetOneOfThreeClaim(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test", "c.test")
	for _, n := range all {
		n.start(t)
	}
	a, b, c := all[0], all[1], all[2]
	alice, _ := a.key(t, 1)
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--open", "--title", "Whoever is first")
	agree(t, id, "offer", all...)
	bob, bobDID := b.key(t, 2)
	carol, carolDID := c.key(t, 3)
	b.must(t, "handoff", "claim", id, "--key-file", bob)
	c.baton(t, "handoff", "claim", id, "--key-file", carol) // which may come too late already
	agree(t, id, "offer claim", all...)
	if winner := a.show(t, id).Assignee; winner != bobDID && winner != carolDID {
		t.Errorf("%q won", winner)
	}
}

// Steps go on while the home of the handoff, and then the other one, is away, and go
// through once it is back.
func TestHomesKilledLoseNothing(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t)
	b.start(t)
	alice, _ := a.key(t, 1)
	_, scout := b.key(t, 2)
	resident(t, b.house, "scout_7", 2)
	bob, _ := b.key(t, 2)
	b.kill(t)
	var ids []string
	for n := range 3 {
		ids = append(ids, a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout, "--title", fmt.Sprintf("Offer %d", n)))
	}
	a.kill(t)
	b.start(t)
	a.start(t)
	for _, id := range ids {
		agree(t, id, "offer", all...)
	}
	a.kill(t)
	for _, id := range ids {
		if code, out := b.exit(t, "handoff", "accept", id, "--key-file", bob, "--wait", "0s"); code != 4 {
			t.Fatalf("an accept while its home is down ends with %d: %s", code, out)
		}
	}
	b.kill(t)
	a.start(t)
	b.start(t)
	for _, id := range ids {
		agree(t, id, "offer accept", all...)
		b.must(t, "handoff", "complete", id, "--key-file", bob)
	}
	for _, id := range ids {
		agree(t, id, "offer accept complete", all...)
	}
	out := a.must(t, "inbox", "show", "--json", a.show(t, ids[0]).Offerer)
	if got := strings.Count(out, `"accept"`); got != len(ids) {
		t.Errorf("alice has %d accepts, want %d: %s", got, len(ids), out)
	}
	for _, n := range all {
		n.stop(t)
		if out, ok := n.baton(t, "verify"); !ok {
			t.Errorf("verify at %s: %s", n.name, out)
		}
	}
}

func TestHomesConfigurationNamesMistakes(t *testing.T) {
	h := newHouse(t, "[[peers]]\nname = 'gw.test'\ndid = 'did:web:c.test'\nurl = 'c.test'\nmode = 'maybe'\n[[peers]]\n")
	n := neighbour{h, "gw.test"}
	out, ok := n.baton(t, "config", "check", h.config)
	for _, want := range []string{"peers.name: it is this", "peers.did: want did:web", "peers.url: want https", "peers.mode: want", "peers.name: required", "peers.did: required"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in: %s", want, out)
		}
	}
	if ok {
		t.Error("it is taken")
	}
}
