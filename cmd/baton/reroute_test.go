package main_test

import (
	"strings"
	"syscall"
	"testing"
)

// joined adds homes to each other as peers.
func joined(t *testing.T, a, b neighbour) {
	t.Helper()
	a.baton(t, "peer", "add", b.url(), "--allow-private", "--yes") // b does not know a yet
	b.must(t, "peer", "add", a.url(), "--allow-private", "--yes")
}

func TestRerouteOfAnOfferBeforeTheFirstPeer(t *testing.T) {
	t.Parallel()
	all := newStrangers(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	scout := resident(t, b.house, "scout_7", 2)
	alice, _ := a.key(t, 1)
	_, stranger := a.key(t, 9)
	offer := func(to string) string {
		t.Helper()
		return a.must(t, "handoff", "offer", "--key-file", alice, "--to", to, "--title", "Before a had a peer")
	}
	known, unknown := offer(scout.DID), offer(stranger)
	if out := a.must(t, "handoff", "show", known); !strings.Contains(out, "waiting inbox") {
		t.Errorf("handoff show at a home without peers: %s", out)
	}
	joined(t, a, b)
	agree(t, known, "offer", all...)
	if out := b.must(t, "inbox", "show", scout.DID); !strings.Contains(out, known) {
		t.Errorf("the inbox at b: %s", out)
	}
	await(t, "the wait for a route", func() bool { return strings.Contains(a.must(t, "explain", unknown), "waits for a route") })
}

func TestRerouteKeepsDeliveriesOfARemovedHome(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, a neighbour){
		"by a command": func(t *testing.T, a neighbour) {
			t.Helper()
			a.must(t, "peer", "remove", "b.test", "--yes")
		},
		"while the gateway is stopped": func(t *testing.T, a neighbour) {
			t.Helper()
			a.stop(t)
			a.settle(t, nil)
			a.start(t)
		},
		"by a reload": func(t *testing.T, a neighbour) {
			t.Helper()
			a.settle(t, nil)
			a.signal(t, syscall.SIGHUP)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := newStrangers(t, "a.test", "b.test")
			a, b := all[0], all[1]
			b.settle(t, all)
			if name != "by a command" {
				a.settle(t, all)
			}
			for _, n := range all {
				n.start(t)
			}
			if name == "by a command" {
				a.must(t, "peer", "add", b.url(), "--allow-private", "--yes")
			}
			alice, _ := a.key(t, 1)
			scout := resident(t, b.house, "scout_7", 2)
			offer := func(title string) string {
				t.Helper()
				return a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", title)
			}
			agree(t, offer("So that a knows scout"), "offer", all...)
			b.stop(t)
			waiting := offer("While b is down")
			if out := a.must(t, "feed", "list"); !strings.Contains(out, "b.test") {
				t.Fatalf("feed list: %s", out)
			}
			remove(t, a)
			await(t, "the wait for a route", func() bool { return strings.Contains(a.must(t, "explain", waiting), "waits for a route") })
			if out := a.must(t, "feed", "list"); strings.Contains(out, "b.test") && !strings.Contains(out, "homes") {
				t.Errorf("feed list: %s", out)
			}
			b.start(t)
			a.must(t, "peer", "add", b.url(), "--allow-private", "--yes")
			agree(t, waiting, "offer", all...)
		})
	}
}

func TestRerouteRevivesDeliveriesAfterABlock(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	for _, n := range all {
		n.start(t)
	}
	alice, _ := a.key(t, 1)
	scout := resident(t, b.house, "scout_7", 2)
	offer := func(title string) string {
		t.Helper()
		return a.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", title)
	}
	agree(t, offer("While b is allowed"), "offer", all...)
	b.stop(t)
	waiting := offer("While b is down")
	mode := func(tables ...string) {
		t.Helper()
		a.settle(t, all, tables...) // the last table of the file is that of b
		a.signal(t, syscall.SIGHUP)
	}
	mode("mode = \"block\"\n")
	await(t, "the dead letter", func() bool { return strings.Contains(a.must(t, "dead", "list", "--reason", "blocked"), "b.test") })
	b.start(t)
	mode()
	agree(t, waiting, "offer", all...)
}
