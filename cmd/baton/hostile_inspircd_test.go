package main_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// An ircdScene is the link to an InspIRCd network, with the users alice and mallory.
type ircdScene struct {
	*stage

	mallory, alice party
	filed          taggedStep // of alice
}

// inspircdLink is the entrance for the users of a linked network.
func inspircdLink() entrance {
	e := entrance{
		name: "InspIRCd link", tries: map[lie]func(*testing.T, *stage) []attempt{},
		never: map[lie]string{
			lieBadToken:    "a link has passwords, which its handshake tests cover, and no tokens",
			lieForeignHost: "it is no HTTP listener", lieConnect: "it is no HTTP listener",
			lieSlow: "the gateway dials the one configured address",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.ircdOffer(t, newParty(t), federation.HandoffTags)
		},
	}
	for _, l := range []lie{lieWeakKey, lieOtherIdentity, lieReplayed, lieTampered, lieDoubled, lieMisshapen, lieTraversal, lieMisaddressed, lieForgedOrigin} {
		e.tries[l] = func(t *testing.T, s *stage) []attempt {
			t.Helper()
			c := s.newIRCdScene(t)
			return append(c.tellAll(t, l, federation.HandoffTags), c.tellAll(t, l, federation.ActTags)...)
		}
	}
	e.tries[lieOversize] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		c := s.newIRCdScene(t)
		return append(c.tellAll(t, lieOversize, federation.HandoffTags), c.lines(t)...)
	}
	e.tries[lieInvisible] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		c := s.newIRCdScene(t)
		return append(c.tellAll(t, lieInvisible, federation.HandoffTags), c.shown(t)...)
	}
	return e
}

// newIRCdScene has alice file an offer, and mallory one of its own, so that its key is on
// record.
func (s *stage) newIRCdScene(t *testing.T) ircdScene {
	t.Helper()
	c := ircdScene{stage: s, mallory: newParty(t), alice: newParty(t)}
	c.filed = s.ircdOffer(t, c.alice, federation.HandoffTags)
	return c
}

func (s *stage) ircdOffer(t *testing.T, p party, d federation.Dialect) taggedStep {
	t.Helper()
	offer := p.offer(t, d, federation.DID(s.scout.DID), nil)
	s.ircd.Tagmsg("alice", channelOfStage, offer.tags)
	s.ircdLine(t, offer)
	s.files(offer.id)
	return offer
}

// ircdLine waits for the line that people read about an offer.
func (s *stage) ircdLine(t *testing.T, offer taggedStep) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := s.ircd.Next(ctx, func(m bridgetest.IRCMessage) bool { return isLineOf(m, offer.id) })
	if err != nil {
		t.Fatalf("the line of an offer: %v", err)
	}
	return m.Params[1]
}

// isLineOf reports whether a message is the line of the channel about a handoff.
func isLineOf(m bridgetest.IRCMessage, id string) bool {
	return m.Command == "NOTICE" && m.Params[0] == channelOfStage && strings.Contains(m.Params[1], "[handoff …"+id[len(id)-6:]+"]")
}

// tellAll has mallory say the steps of a lie.
func (c ircdScene) tellAll(t *testing.T, l lie, d federation.Dialect) []attempt {
	t.Helper()
	filed := c.filed
	if d == federation.ActTags {
		filed = c.ircdOffer(t, c.alice, d)
	}
	var all []attempt
	for _, step := range (scene{d, c.mallory, c.alice, filed, federation.DID(c.scout.DID)}).lyingSteps(t, l) {
		if step.target != channelOfStage && step.target != "Baton" {
			continue // a server sends it only to users of that target
		}
		c.ircd.Tagmsg("mallory", step.target, step.step.tags)
		answer := c.ircdAnswer(t, step.step.id)
		if answer == step.want.Upper() {
			c.counts(refusal("spanningtree", answer))
		}
		all = append(all, attempt{fmt.Sprint(d, ": ", step.name), answer, step.want.Upper()})
	}
	return all
}

// ircdAnswer returns the gateway's answer to mallory: the code of a refusal,
// or that the step is filed.
func (s *stage) ircdAnswer(t *testing.T, id string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	uuid, code := s.ircd.UUID("mallory"), regexp.MustCompile(`^[A-Z_]+ `)
	m, err := s.ircd.Next(ctx, func(m bridgetest.IRCMessage) bool {
		return isLineOf(m, id) || m.Command == "NOTICE" && m.Params[0] == uuid && code.MatchString(m.Params[1])
	})
	switch {
	case err != nil:
		return "no answer"
	case m.Params[0] == channelOfStage:
		return "filed"
	}
	return strings.TrimSpace(code.FindString(m.Params[1]))
}

// lines sends lines of the server that cannot be read. The link lives on, as the step of
// the next legitimate request shows.
func (c ircdScene) lines(t *testing.T) []attempt {
	t.Helper()
	uuid := c.ircd.UUID("mallory")
	offer := c.mallory.offer(t, federation.HandoffTags, federation.DID(c.scout.DID), nil)
	var all []attempt
	for _, line := range []struct{ name, text, reason string }{
		{"a line of a megabyte", ":" + uuid + " PRIVMSG " + channelOfStage + " :" + strings.Repeat("x", 1<<20), "too_long"},
		{"a source that is not there", "@+freeq.at/eventid=" + offer.id + " :9ZZAAAAAA TAGMSG " + channelOfStage, "unknown_source"},
	} {
		series := badInput("spanningtree", "lab", line.reason)
		before := c.counters(t)[series]
		c.ircd.Send(line.text)
		answer := "not counted"
		if c.grows(t, series, before) {
			answer = line.reason
		}
		all = append(all, attempt{line.name, answer, line.reason})
	}
	return all
}

// grows waits until a series has counted more, and reports whether it has.
func (s *stage) grows(t *testing.T, series string, before float64) bool {
	t.Helper()
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for deadline := time.Now().Add(answerTime); time.Now().Before(deadline); <-tick.C {
		if s.counters(t)[series] > before {
			return true
		}
	}
	return false
}

// shown files offers whose titles people cannot see whole, and reads the lines for people.
func (c ircdScene) shown(t *testing.T) []attempt {
	t.Helper()
	var all []attempt
	for name, title := range unseen() {
		offer := c.alice.offer(t, federation.HandoffTags, federation.DID(c.scout.DID), map[string]string{"handoff-task": title})
		c.ircd.Tagmsg("alice", channelOfStage, offer.tags)
		line, answer := c.ircdLine(t, offer), "clean"
		if hidden(line) {
			answer = fmt.Sprintf("%q", line)
		}
		c.files(offer.id)
		all = append(all, attempt{name, answer, "clean"})
	}
	return all
}
