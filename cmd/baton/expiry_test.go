//go:build interop

package main_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// expiryLag is how late the home may expire an unanswered offer.
const expiryLag = 5 * time.Second

// overdue offers the agent something that expires after a while, and returns when.
func (tw *twin) overdue(t *testing.T, d dialect, left time.Duration) (offer signed, ends time.Time) {
	t.Helper()
	deadline := past(left).Truncate(time.Second)
	offer = d.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title, "deadline": due(deadline)})
	send(t, tw.alice, offer.tags)
	d.await(t, tw.carol, "offer", offer.handoff)
	return offer, deadline.Add(2 * time.Minute)
}

// checkExpired checks that everybody is told of the end, in time.
func (tw *twin) checkExpired(t *testing.T, d dialect, offer signed, ends time.Time) {
	t.Helper()
	tw.byHome(t, d, offer.handoff, channel, tw.alice, tw.carol)
	if late := time.Since(ends); late < 0 || late > expiryLag+time.Second {
		t.Errorf("expired %s after its end, want at most %s", late, expiryLag)
	}
	next(t, tw.bob, "the line of the expiry", isLine(offer.handoff, "expired"))
}

// checkOnce checks that each party learns of the end once.
func (tw *twin) checkOnce(t *testing.T, d dialect, handoff string) {
	t.Helper()
	tw.settle(t)
	for _, client := range []*bridgetest.IRCClient{tw.alice, tw.carol} {
		if slices.ContainsFunc(client.Received(), d.names("expire", handoff)) {
			t.Errorf("%s is told twice that %s expired", client.Nick, handoff)
		}
	}
	messages, _ := inbox(t, tw.finn.Agent, tw.finn.cursor)
	if slices.ContainsFunc(append(messages, tw.finn.kept...), isAbout("expire", handoff)) {
		t.Errorf("the agent is told twice that %s expired", handoff)
	}
}

func TestExpiryOfAnUnansweredOfferHappensOnce(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, rfcTags)
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			offer, ends := tw.overdue(t, d, 2*time.Second)
			tw.checkExpired(t, d, offer, ends)
			got, _ := printError(t, tw.finn, handleOf(tw.key.did), answerPayload("accept", offer.handoff))
			if got.Status != http.StatusConflict || got.Error != "terminal_handoff" || got.Handoff.State != "expired" {
				t.Errorf("an accept after the end is answered %+v", got)
			}
			cancel := d.step(tw.key, channel, "cancel", offer.handoff, nil)
			send(t, tw.alice, cancel.tags)
			tw.refused(t, tw.alice, "TERMINAL_HANDOFF", cancel.event)
			tw.checkOnce(t, d, offer.handoff)
		})
	}
}

// refused waits until a client is told why a step was refused.
func (w *world) refused(t *testing.T, client *bridgetest.IRCClient, code, subject string) string {
	t.Helper()
	m := next(t, client, code, func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Params[0] == client.Nick && strings.Contains(m.Params[1], " "+subject+" ")
	})
	if m.Nick != "Baton" || !strings.HasPrefix(m.Params[1], code+" "+subject+" ") {
		t.Errorf("%s says %q, want %s", m.Nick, m.Params[1], code)
	}
	return m.Params[1]
}

// The clock of an answer is that of its event id, which may be ahead: so an answer
// is too late while its handoff is still open.
func TestExpiryRefusesLaterAnswers(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, rfcTags)
	for _, d := range dialects() {
		t.Run(string(d), func(t *testing.T) {
			who := tw.arrive(t, "late"+string(d), d)
			deadline := past(90 * time.Second)
			offer := d.offer(tw.key, channel, extras{"to": who.did, "title": title, "deadline": due(deadline)})
			send(t, tw.alice, offer.tags)
			d.await(t, tw.carol, "offer", offer.handoff)
			late := d.at(time.Now().Add(100*time.Second), who.person, channel, "accept", offer.handoff, nil)
			send(t, who.IRCClient, late.tags)
			tw.refused(t, who.IRCClient, "DEADLINE_PASSED", late.event)
			accept := d.step(who.person, channel, "accept", offer.handoff, nil)
			send(t, who.IRCClient, accept.tags)
			seenAsSigned(t, tw.carol, d, "accept", accept)
		})
	}
}

func TestExpiryHappensOnceAfterARestart(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, actTags)
	first, _ := tw.overdue(t, rfcTags, 2*time.Second)
	second, ends := tw.overdue(t, actTags, 2*time.Second)
	held := tw.request(t, handleOf(tw.key.did), map[string]any{"deadline": past(2 * time.Second).Unix()})
	tw.kill(t)
	await(t, "the end of the offers", func() bool { return time.Now().After(ends.Add(time.Second)) })
	tw.start(t)
	lives := time.Now()
	tw.ready(t)
	tw.checkExpired(t, rfcTags, first, lives)
	tw.checkExpired(t, actTags, second, lives)
	actTags.await(t, tw.alice, "expire", held)
	tw.finn.next(t, "the expiry of its own offer", isAbout("expire", held))
	for range 2 {
		tw.checkOnce(t, rfcTags, first.handoff)
		tw.checkOnce(t, actTags, second.handoff)
		tw.checkOnce(t, actTags, held)
		tw.kill(t)
		tw.start(t)
		tw.ready(t)
	}
}
