package main_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// listedPeer is a home in the output of peer list.
type listedPeer struct {
	Name, Network, Mode, Origin, URL, Path, State string
	LastHeard                                     string `json:"last_heard"`
	Waiting                                       int
	Forks                                         []struct{}
}

// peer returns how a home sees its only peer.
func (n neighbour) peer(t *testing.T) listedPeer {
	t.Helper()
	var page struct{ Items []listedPeer }
	if err := json.Unmarshal([]byte(n.must(t, "peer", "list", "--json")), &page); err != nil || len(page.Items) != 1 {
		t.Fatalf("%d peers: %v", len(page.Items), err)
	}
	return page.Items[0]
}

func TestPeersAreListedShownAndControlled(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t)
	b.start(t)
	await(t, "a.test to reach b.test", func() bool { return a.peer(t).State == "up" })
	got := a.peer(t)
	if got.Network != "home" || got.Mode != "allow" || got.Origin != "configuration" || got.URL != b.url() || got.Path == "" || got.LastHeard == "" || got.Forks == nil {
		t.Errorf("a.test lists %+v", got)
	}
	if found, _ := a.examined(t); !strings.HasPrefix(found["clock"], "ok clock: ") || !strings.HasSuffix(found["clock"], " ahead of the clock of b.test, the largest difference among 1 homes") {
		t.Errorf("the doctor says %q", found["clock"])
	}
	for _, line := range []string{"name          ", "url           ", "path          ", "heard         ", "clock ahead by"} {
		if out := a.must(t, "peer", "show", "b.test"); !strings.Contains(out, line) {
			t.Errorf("no line %q in:\n%s", line, out)
		}
	}

	alice, _ := a.key(t, 1)
	scout := resident(t, b.house, "scout_7", 2)
	offer := func() string {
		return a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", "Cite three sources on X")
	}
	agree(t, offer(), "offer", a, b) // whose people they are is known from then on
	a.must(t, "peer", "mode", "b.test", "hold", "--reason", "they said so")
	id := offer()
	if got := a.peer(t); got.Waiting != 1 || got.Mode != "hold" || got.Origin != "record" {
		t.Errorf("on hold a.test lists %+v", got)
	}
	// The mode is of the record, and the home of the configuration.
	if out := a.must(t, "peer", "show", "b.test"); !strings.Contains(out, "hold by record") || !regexp.MustCompile(`(?m)^named by +configuration$`).MatchString(out) {
		t.Errorf("on hold a.test shows:\n%s", out)
	}
	if code, out := a.exit(t, "peer", "remove", "b.test", "--yes"); code == 0 || !strings.Contains(out, "configuration") {
		t.Errorf("peer remove of a home from the configuration: %d %s", code, out)
	}
	if out := a.must(t, "feed", "list", "--peer", "b.test"); strings.Count(out, "\n") != 1 || !strings.Contains(out, id) {
		t.Errorf("b.test is owed:\n%s", out)
	}
	if found, _ := a.examined(t); !strings.Contains(found["hold b.test"], "its mode is hold; baton peer mode b.test allow") {
		t.Errorf("the doctor says %q", found["hold b.test"])
	}
	if _, text := a.ask(t, "/metrics"); !strings.Contains(text, `baton_held_seconds{destination="b.test"} `) {
		t.Error("no metric has the hold")
	}
	for _, command := range [][]string{{"explain", id}, {"handoff", "show", id}, {"link", "list"}} {
		if out := a.must(t, command...); !strings.Contains(out, "held by the mode of b.test; baton peer mode b.test allow --reason TEXT") {
			t.Errorf("on hold %v prints:\n%s", command, out)
		}
	}
	a.kill(t)
	a.start(t)
	if got := a.peer(t); got.Waiting != 1 || got.Mode != "hold" {
		t.Errorf("after a restart a.test lists %+v", got)
	}
	a.must(t, "peer", "mode", "b.test", "allow")
	agree(t, id, "offer", a, b)
	if out := a.must(t, "audit", "list"); !strings.Contains(out, "b.test hold") || !strings.Contains(out, "they said so") {
		t.Errorf("nobody noted it:\n%s", out)
	}
}
