package main_test

import "testing"

func TestBlockAppliesToDIDsOfOtherHomes(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.start(t)
	b.start(t)
	key, alice := a.key(t, 1)
	scout := resident(t, b.house, "scout_7", 2)
	bob, _ := b.key(t, 2) // scout's own key
	offer := func(title string) string {
		t.Helper()
		return a.must(t, "handoff", "offer", "--key-file", key, "--to", scout.DID, "--title", title)
	}
	known := offer("before the block")
	agree(t, known, "offer", a, b)
	mine := b.must(t, "handoff", "offer", "--key-file", bob, "--to", alice, "--title", "of b")
	agree(t, mine, "offer", a, b)

	b.must(t, "block", "add", alice)
	refused := offer("after the block")
	refusals := func() float64 { return b.counters(t)[`baton_blocked_total{network="home"}`] }
	await(t, "the refusal", func() bool { return refusals() > 0 })
	if got := b.show(t, refused); got.Home != "" {
		t.Errorf("b has an offer of a blocked DID: %+v", got)
	}
	before := refusals()
	_, _ = a.baton(t, "handoff", "accept", mine, "--key-file", key) // it waits for the ruling of b
	await(t, "another refusal", func() bool { return refusals() > before })
	if got := b.show(t, mine).verbs(); got != "offer" {
		t.Errorf("b has filed %s", got)
	}
	// The log of a handoff that both have stays the same at both.
	a.must(t, "handoff", "cancel", known, "--key-file", key)
	agree(t, known, "offer cancel", a, b)

	b.must(t, "block", "remove", alice)
	agree(t, offer("after the end of the block"), "offer", a, b)
}
