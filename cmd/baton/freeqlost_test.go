//go:build interop

package main_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// wordsTo returns a gateway's lines to a user of a freeq server about a
// handoff.
func wordsTo(server *bridgetest.Freeq, nick string, about federation.HandoffID) (words []string) {
	for _, m := range server.Said() {
		tags, _ := m["tags"].(map[string]any)
		if m["type"] == "privmsg" && m["target"] == nick && tags["+freeq.at/ref"] == about.String() {
			text, _ := m["text"].(string)
			words = append(words, text)
		}
	}
	return words
}

// A user of a freeq server claims a handoff that a party at another home has claimed
// already, before this gateway knows that. The server repeats the claim, and each time the
// other home refuses it.
func TestFreeqClaimLoserIsNotifiedOnce(t *testing.T) {
	t.Parallel()
	all := newNeighbours(t, "a.test", "b.test")
	a, b := all[0], all[1]
	server, table := newFreeq(t, b.house, "fq", channel)
	table, _, _ = strings.Cut(table, "[fetch]") // which all homes have
	b.settle(t, all, table)
	for _, n := range all {
		n.start(t)
	}
	for _, n := range all {
		n.ready(t)
	}
	if err := server.AwaitLink(patient(t)); err != nil {
		t.Fatal(err)
	}
	carla := server.Join("carla", didOf(seeded("carla")), seeded("carla"))
	alice, _ := a.key(t, 1)
	bob, _ := a.key(t, 2)
	refusals := func() (n int) {
		for _, line := range b.logged(t) {
			if line["msg"] == "step judged" && line["verb"] == "claim" && line["outcome"] == "refused" {
				n++
			}
		}
		return n
	}
	var lost []federation.HandoffID
	for range 2 { // once she is told of the second, nothing more of the first is to come
		text := a.must(t, "handoff", "offer", "--key-file", alice, "--open", "--title", title)
		id, err := federation.ParseEventID(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.AwaitState(patient(t), id, federation.Open); err != nil {
			t.Fatal(err)
		}
		a.must(t, "feed", "hold", "b.test", "--reason", "both claim at once")
		a.must(t, "handoff", "claim", text, "--key-file", bob)
		before := refusals()
		claim, err := carla.Step(channel, id, federation.Claim, "")
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the first refusal", func() bool { return refusals() > before })
		for range 2 {
			before := refusals()
			await(t, "another refusal", func() bool {
				server.Route(claim) // the last refusal also ends the processing of everything before it
				return refusals() > before
			})
		}
		await(t, "her to be told", func() bool { return len(wordsTo(server, carla.Nick, id)) > 0 })
		a.must(t, "feed", "release", "b.test")
		agree(t, text, "offer claim", all...)
		lost = append(lost, id)
	}
	for _, id := range lost {
		words := wordsTo(server, carla.Nick, id)
		if len(words) != 1 || !strings.HasPrefix(words[0], "REFUSED ") || !strings.Contains(words[0], "your claim of handoff "+id.Short()+" was refused: ") {
			t.Errorf("she is told %q", words)
		}
	}
}
