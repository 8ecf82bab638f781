//go:build interop

package main_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// claimant is one party that claims an open offer.
type claimant struct {
	did string
	// claim makes the claim, and finish says that the work is done. Both return the
	// answer of the network: "" for a filed step, else its code and sentence.
	claim, finish func() string
}

func TestClaimIsWonByOneOfFifty(t *testing.T) {
	const each = 25
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, d)
			users := make([]user, each)
			agents := make([]*mailbox, each)
			for i := range each {
				users[i] = user{newPerson(t), tw.net.join(t, fmt.Sprintf("user%d", i), "message-tags")}
				agents[i] = tw.hire(t, fmt.Sprintf("agent_%d", i))
			}
			offer := d.offer(tw.key, channel, extras{"title": title, "caps": skill})
			send(t, tw.alice, offer.tags)
			tw.finn.next(t, "the offer", isAbout("offer", offer.handoff))
			var all []claimant
			for i := range each {
				all = append(all, tw.userClaims(t, d, users[i], offer.handoff), tw.agentClaims(t, agents[i], offer.handoff))
			}
			tw.race(t, all)
			if note := tw.finn.next(t, "the notice", isTaken(offer.handoff)); note.From != "system" || note.Payload.Type != "at.freeq:handoff" {
				t.Errorf("who was shown the offer reads %s from %s", note.Payload.Type, note.From)
			}
		})
	}
}

// isTaken matches the notice that an open offer is gone.
func isTaken(handoff string) func(message) bool {
	return func(m message) bool {
		return about(m).ID == handoff && strings.Contains(string(m.Payload.Data), `"notice":"taken"`)
	}
}

// race lets all claim at once and checks that one of them wins.
func (tw *twin) race(t *testing.T, all []claimant) {
	t.Helper()
	answers := make([]string, len(all))
	begin := make(chan struct{})
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() {
			<-begin
			answers[i] = c.claim()
		})
	}
	close(begin)
	running.Wait()
	var winners []claimant
	for i, answer := range answers {
		if answer == "" {
			winners = append(winners, all[i])
		}
	}
	if len(winners) != 1 {
		t.Fatalf("%d claims were filed, want 1: %q", len(winners), answers)
	}
	winner := winners[0]
	for i, answer := range answers {
		if answer != "" && (!strings.HasPrefix(strings.ToUpper(answer), "ILLEGAL_STEP ") || !strings.Contains(answer, winner.did)) {
			t.Errorf("%s is told %q, want that %s won", all[i].did, answer, winner.did)
		}
	}
	losers := slices.DeleteFunc(slices.Clone(all), func(c claimant) bool { return c.did == winner.did })
	for i, c := range losers[:4] { // of both networks
		if answer := c.finish(); !strings.HasPrefix(strings.ToUpper(answer), "WRONG_SENDER ") {
			t.Errorf("loser %d completes and is told %q", i, answer)
		}
	}
	if answer := winner.finish(); answer != "" {
		t.Errorf("the winner completes and is told %q", answer)
	}
}

// userClaims returns a claimant on IRC. The outcome of its step is a NOTICE, or the
// step on the other network.
func (tw *twin) userClaims(t *testing.T, d dialect, who user, handoff string) claimant {
	t.Helper()
	take := func(verb string) string {
		s := d.step(who.person, channel, verb, handoff, nil)
		if err := who.Send(s.tags, "TAGMSG", channel); err != nil {
			return err.Error()
		}
		return tw.told(t, who, s)
	}
	return claimant{did: who.did, claim: func() string { return take("claim") }, finish: func() string { return take("complete") }}
}

// told waits for the outcome of a user's step: its line for people, or a
// refusal.
func (tw *twin) told(t *testing.T, who user, s signed) string {
	t.Helper()
	filed := isLine(s.handoff, who.Nick+" (claims|completes)")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := who.Next(ctx, func(m bridgetest.IRCMessage) bool {
		return filed(m) || m.Command == "NOTICE" && m.Params[0] == who.Nick && strings.Contains(m.Params[1], s.event)
	})
	switch {
	case err != nil:
		return err.Error()
	case m.Params[0] == channel:
		return ""
	}
	return m.Params[1]
}

func (tw *twin) agentClaims(t *testing.T, agent *mailbox, handoff string) claimant {
	t.Helper()
	take := func(verb string) string {
		status, answer, err := agent.Send(t.Context(), handleOf(tw.key.did), "on it", answerPayload(verb, handoff))
		switch {
		case err != nil:
			return err.Error()
		case status == http.StatusCreated:
			return ""
		}
		return fmt.Sprintf("%v %d %v %v", answer["error"], status, answer["message"], answer["handoff"])
	}
	return claimant{did: agent.DID, claim: func() string { return take("claim") }, finish: func() string { return take("complete") }}
}
