package main_test

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exit runs a command against a home, and returns its exit code and output.
func (n neighbour) exit(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--config", n.config}, args...)...)
	text, err := cmd.CombinedOutput()
	ended, isExit := errors.AsType[*exec.ExitError](err)
	if err != nil && !isExit {
		t.Fatal(err)
	}
	if isExit {
		code = ended.ExitCode()
	}
	return code, strings.TrimSpace(string(text))
}

func TestReadyWithoutOtherHomes(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t) // and b is down
	a.ready(t)
	if out := a.must(t, "healthcheck"); out != "ready" {
		t.Errorf("healthcheck: %s", out)
	}
	if code, out := a.exit(t, "healthcheck", "--peers"); code != 4 || !strings.Contains(out, "peer b.test: down") {
		t.Errorf("healthcheck --peers: %d %s", code, out)
	}
	status, text := a.ask(t, "/statusz")
	if status != http.StatusOK || !strings.Contains(text, `"peers":[{"name":"b.test","network":"home","state":"dialling"`) {
		t.Errorf("/statusz: %d %s", status, text)
	}
	if code, out := a.exit(t, "healthcheck", "--peers", "--wait", "300ms"); code != 4 || !strings.Contains(out, "peer b.test: down") {
		t.Errorf("healthcheck --peers --wait: %d %s", code, out)
	}
	b.launch(t)
	if out := a.must(t, "healthcheck", "--peers", "--wait", "1m"); out != "ready" {
		t.Errorf("healthcheck that waits for the link: %s", out)
	}
}

func TestPendingStepEndsWithTheRulingOfItsHome(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test", "c.test")
	for _, n := range all {
		n.start(t)
	}
	a, b, c := all[0], all[1], all[2]
	alice, _ := a.key(t, 1)
	id := a.must(t, "handoff", "offer", "--key-file", alice, "--open", "--title", "The first one takes it")
	agree(t, id, "offer", all...)
	bob, winner := b.key(t, 2)
	carol, _ := c.key(t, 3)
	if code, out := b.exit(t, "handoff", "claim", id, "--key-file", bob); code != 0 || out != id+" assigned" {
		t.Errorf("the winner: %d %s", code, out)
	}
	if code, out := c.exit(t, "handoff", "claim", id, "--key-file", carol); code != 3 || !strings.Contains(out, "it went to "+winner) {
		t.Errorf("the loser: %d %s", code, out)
	}

	a.kill(t)
	for _, args := range [][]string{{"--wait", "0s"}, {"--wait", "1s"}} {
		step := append([]string{"handoff", "progress", id, "--key-file", bob, "--note", "half way"}, args...)
		if code, out := b.exit(t, step...); code != 4 || !strings.Contains(out, "waits for its home a.test") {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
	a.start(t)
	agree(t, id, "offer claim progress progress", a, b)
	if code, out := b.exit(t, "handoff", "complete", id, "--key-file", bob, "--wait", "soon"); code != 2 {
		t.Errorf("--wait soon: %d %s", code, out)
	}
}

// b is restored to a backup from before a handoff that it ordered.
func TestRestoredHomeIsCompletedByItsPeers(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	alice, aliceDID := a.key(t, 1)
	bob, bobDID := b.key(t, 2)
	known := a.must(t, "handoff", "offer", "--key-file", alice, "--open", "--title", "So that both are known")
	agree(t, known, "offer", all...)
	b.must(t, "handoff", "claim", known, "--key-file", bob)
	saved := filepath.Join(b.dir, "backup.tar")
	b.must(t, "backup", saved)

	given := a.must(t, "handoff", "offer", "--key-file", alice, "--to", bobDID, "--title", "From a, after the backup")
	agree(t, given, "offer", all...)
	lost := b.must(t, "handoff", "offer", "--key-file", bob, "--open", "--title", "From b, after the backup")
	agree(t, lost, "offer", all...)
	a.must(t, "handoff", "claim", lost, "--key-file", alice)
	agree(t, lost, "offer claim", all...)

	b.stop(t)
	b.must(t, "restore", saved, "--force")
	b.start(t)
	agree(t, given, "offer", all...)
	agree(t, lost, "offer claim", all...)
	if got := b.show(t, lost); got.Home != "b.test" || got.Assignee != aliceDID {
		t.Errorf("b has %+v", got)
	}
	a.must(t, "handoff", "complete", lost, "--key-file", alice)
	agree(t, lost, "offer claim complete", all...)
	if out := a.must(t, "peer", "compare", "b.test"); !strings.Contains(out, "compared, 0 were incomplete there") {
		t.Errorf("peer compare: %s", out)
	}
	if code, out := a.exit(t, "peer", "compare", "c.test"); code != 1 || !strings.Contains(out, "there is no peer c.test") {
		t.Errorf("peer compare of a stranger: %d %s", code, out)
	}
	for _, n := range all {
		n.stop(t)
		if out, ok := n.baton(t, "verify"); !ok {
			t.Errorf("verify at %s: %s", n.name, out)
		}
	}
}

// b is restored, and goes on otherwise before a is back.
func TestOrphanedHandoffIsEndedByAnOperator(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	alice, aliceDID := a.key(t, 1)
	bob, _ := b.key(t, 2)
	id := b.must(t, "handoff", "offer", "--key-file", bob, "--open", "--title", "Of b")
	agree(t, id, "offer", all...)
	saved := filepath.Join(b.dir, "backup.tar")
	b.must(t, "backup", saved)
	a.must(t, "handoff", "claim", id, "--key-file", alice)
	agree(t, id, "offer claim", all...)
	if code, out := a.exit(t, "handoff", "orphan", "end", id, "--reason", "no", "--yes"); code != 1 || !strings.Contains(out, "is not orphaned") {
		t.Errorf("ended while its home has it: %d %s", code, out)
	}
	a.stop(t)
	b.stop(t)
	b.must(t, "restore", saved, "--force")
	b.start(t)
	b.must(t, "handoff", "cancel", id, "--key-file", bob)
	a.start(t)
	await(t, "the orphan", func() bool { return strings.Contains(a.must(t, "handoff", "list"), "assigned (orphaned)") })
	if out := a.must(t, "handoff", "show", id); !strings.Contains(out, "its home b.test has lost steps") || !strings.Contains(out, "another step in its place") {
		t.Errorf("handoff show: %s", out)
	}
	if code, out := a.exit(t, "handoff", "orphan", "end", id, "--yes"); code != 2 || !strings.Contains(out, "--reason") {
		t.Errorf("ended without a reason: %d %s", code, out)
	}
	reason := "b was restored from the backup of Monday"
	if out := a.must(t, "handoff", "orphan", "end", id, "--reason", reason, "--dry-run"); !strings.Contains(out, "dry run: "+id+" ends: its home b.test has lost steps") {
		t.Errorf("dry run: %s", out)
	}
	if out := a.must(t, "handoff", "orphan", "end", id, "--reason", reason, "--yes"); out != id+" expired" {
		t.Errorf("ended: %s", out)
	}
	if out := a.must(t, "inbox", "show", aliceDID, "--json"); !strings.Contains(out, reason) {
		t.Errorf("alice reads %s", out)
	}
	if out := a.must(t, "audit", "list"); !strings.Contains(out, "handoff orphan end") {
		t.Errorf("audit: %s", out)
	}
	if out := a.must(t, "peer", "compare", "b.test"); strings.Contains(out, "orphaned") {
		t.Errorf("it is still one: %s", out)
	}
	for _, n := range all {
		n.stop(t)
		if out, ok := n.baton(t, "verify"); !ok {
			t.Errorf("verify at %s: %s", n.name, out)
		}
	}
}

func TestBlockedHomeGetsItsDeliveriesOnceAllowed(t *testing.T) {
	t.Parallel()
	all := newStrangers(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	a.baton(t, "peer", "add", b.url(), "--allow-private", "--yes") // b does not know a yet
	b.must(t, "peer", "add", a.url(), "--allow-private", "--yes")
	alice, _ := a.key(t, 1)
	scout := resident(t, b.house, "scout_7", 2)
	offer := func(title string) string {
		t.Helper()
		return a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", title)
	}
	agree(t, offer("While b is allowed"), "offer", all...)
	if out := a.must(t, "peer", "show", "b.test"); !strings.Contains(out, "allow by record") {
		t.Errorf("peer show: %s", out)
	}
	if code, out := a.exit(t, "peer", "mode", "c.test", "block"); code != 1 || !strings.Contains(out, "there is no peer c.test") {
		t.Errorf("peer mode of an unknown name: %d %s", code, out)
	}
	b.stop(t)
	waiting := offer("While b is down")
	if out := a.must(t, "peer", "mode", "b.test", "block", "--dry-run"); !strings.Contains(out, "1 deliveries to it end as dead letters") {
		t.Errorf("dry run: %s", out)
	}
	a.must(t, "peer", "mode", "b.test", "block")
	await(t, "the dead letter", func() bool { return strings.Contains(a.must(t, "dead", "list", "--reason", "blocked"), "b.test") })
	b.start(t)
	a.must(t, "peer", "mode", "b.test", "allow")
	agree(t, waiting, "offer", all...)
}
