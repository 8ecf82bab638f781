package main_test

import (
	"strings"
	"testing"
)

// bob moves from one home to another while alice at a third one goes on working with him.
func TestMovingADIDTakesItsInboxAlong(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test", "c.test")
	a, b, c := all[0], all[1], all[2]
	for _, n := range all {
		n.start(t)
	}
	alice, _ := a.key(t, 1)
	bob, bobDID := b.key(t, 2)
	first := b.must(t, "handoff", "offer", "--key-file", bob, "--open", "--title", "Whoever likes")
	agree(t, first, "offer", all...) // so that a knows bob's home
	offer := func(title string) string {
		return a.must(t, "handoff", "offer", "--key-file", alice, "--to", bobDID, "--title", title)
	}
	before := []string{offer("Before, and first"), offer("Before, and second")}
	for _, id := range before {
		agree(t, id, "offer", a, b)
	}
	if out := b.must(t, "inbox", "move", bobDID, "c.test", "--dry-run"); !strings.Contains(out, "dry run: ") || !strings.Contains(out, "2 are pending here") {
		t.Errorf("a dry run says %q", out)
	}
	if out, ok := b.baton(t, "inbox", "move", bobDID, "d.test"); ok || !strings.Contains(out, "there is no peer d.test") {
		t.Errorf("to nobody: %s", out)
	}
	if out, ok := c.baton(t, "inbox", "move", bobDID, "b.test"); ok || !strings.Contains(out, "the mailbox of") {
		t.Errorf("from where it is not: %s", out)
	}

	if out := b.must(t, "inbox", "move", bobDID, "c.test"); !strings.Contains(out, "2 entries moved, 0 are pending here") {
		t.Errorf("the move says %q", out)
	}
	out := c.must(t, "inbox", "show", bobDID, "--json")
	if got := strings.Count(out, `"offer"`); got != len(before) {
		t.Errorf("at the new home wait %d offers: %s", got, out)
	}
	after := offer("After, to where he was")
	agree(t, after, "offer", all...) // it went on from b
	c.must(t, "handoff", "accept", before[0], "--key-file", bob)
	agree(t, before[0], "offer accept", a, c)
	c.must(t, "handoff", "accept", after, "--key-file", bob)
	c.must(t, "handoff", "complete", after, "--key-file", bob)
	agree(t, after, "offer accept complete", a, c)

	last := offer("After, to where he is") // a has learned it
	agree(t, last, "offer", a, c)
	if got := b.show(t, last).verbs(); got != "" {
		t.Errorf("the old home was still told: %s", got)
	}
	for _, n := range all {
		n.stop(t)
		if out, ok := n.baton(t, "verify"); !ok {
			t.Errorf("verify at %s: %s", n.name, out)
		}
	}
}
