package main_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// freeqLink is the entrance for the users of a linked freeq server, and for that server.
func freeqLink() entrance {
	e := entrance{
		name: "freeq link", tries: map[lie]func(*testing.T, *stage) []attempt{},
		never: map[lie]string{
			lieBadToken:    "the transport proves the server, and no token is shown",
			lieForeignHost: "it is no HTTP listener", lieConnect: "it is no HTTP listener",
			lieSlow:         "the gateway dials the one configured address",
			lieForgedOrigin: "other gateways behind the server write these tags, and their steps count as vouched for",
		},
		serves: func(t *testing.T, s *stage) {
			t.Helper()
			s.freeqOffer(t, newParty(t), nil)
		},
	}
	for _, l := range []lie{lieWeakKey, lieOtherIdentity, lieReplayed, lieTampered, lieMisshapen, lieOversize, lieTraversal, lieMisaddressed} {
		e.tries[l] = func(t *testing.T, s *stage) []attempt {
			t.Helper()
			return append(s.freeqSteps(t, l), s.freeqLines(t, l)...)
		}
	}
	e.tries[lieDoubled] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		return append(s.freeqSteps(t, lieDoubled), s.freeqLines(t, lieDoubled)...)
	}
	e.tries[lieInvisible] = func(t *testing.T, s *stage) []attempt {
		t.Helper()
		return append(s.freeqSteps(t, lieInvisible), s.freeqShown(t)...)
	}
	return e
}

func freeqKey(name string) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	return ed25519.NewKeyFromSeed(seed)
}

// tagmsg returns the message in which the server says a step.
func (s *stage) tagmsg(step taggedStep, target string) map[string]any {
	return s.freeq.Event(map[string]any{"type": "tagmsg", "from": "mallory", "target": target, "tags": step.tags, "account": step.from})
}

// freeqOffer files an offer of an honest user.
func (s *stage) freeqOffer(t *testing.T, p party, changes map[string]string) taggedStep {
	t.Helper()
	s.freeq.Join(fmt.Sprintf("user%x", p.public[:4]), p.did, p.secret)
	offer := p.offer(t, federation.ActTags, federation.DID(s.scout.DID), changes)
	s.freeq.Say(s.tagmsg(offer, channelOfStage))
	await(t, "the offer of a freeq user to be filed", func() bool { return s.isFiled(t, offer.id) })
	s.files(offer.id)
	return offer
}

// isFiled reports whether a handoff is on record.
func (s *stage) isFiled(t *testing.T, id string) bool {
	t.Helper()
	return s.answer(t, s.socket(), getting(operatorPath+"handoffs/"+id, "")) == "200"
}

// freeqCounters returns the counters of this network's refusals.
func (s *stage) freeqCounters(t *testing.T) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for series, n := range s.counters(t) {
		if strings.Contains(series, `network="freeq"`) && (strings.HasPrefix(series, "baton_refusals_total{") || strings.HasPrefix(series, "baton_bad_input_total{")) {
			found[series] = n
		}
	}
	return found
}

// freeqAnswer says something and returns the code or the reason that the gateway counts:
// on this network a refusal is silent.
func (s *stage) freeqAnswer(t *testing.T, id string, say func()) string {
	t.Helper()
	before := s.freeqCounters(t)
	say()
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for deadline := time.Now().Add(answerTime); time.Now().Before(deadline); <-tick.C {
		for series, n := range s.freeqCounters(t) {
			if n > before[series] {
				return labelOf(series, "code") + labelOf(series, "reason")
			}
		}
		if id != "" && s.isFiled(t, id) {
			return "filed"
		}
	}
	return "no answer"
}

// labelOf returns the value of a label of a series, "" for none.
func labelOf(series, label string) string {
	_, after, _ := strings.Cut(series, label+`="`)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

// freeqWord returns the word of this network for a code.
func freeqWord(code federation.RefusalCode) string {
	switch code { //nolint:exhaustive // the others are spelt as anywhere
	case federation.NeedSignature:
		return "SIGNATURE_REQUIRED"
	case federation.UnknownHandoff:
		return "UNKNOWN_TASK"
	case federation.InvalidContext, federation.InvalidTag:
		return "INVALID_TARGET"
	case federation.DuplicateTag:
		return "MIXED_TAGS"
	}
	return code.Upper()
}

// freeqSteps says the steps of a lie as users of the server.
func (s *stage) freeqSteps(t *testing.T, l lie) []attempt {
	t.Helper()
	mallory, honest := newParty(t), newParty(t)
	filed := s.ircdOffer(t, honest, federation.ActTags) // its home is this gateway
	s.freeqOffer(t, mallory, nil)                       // its key is known from here on
	var all []attempt
	for _, step := range (scene{federation.ActTags, mallory, honest, filed, federation.DID(s.scout.DID)}).lyingSteps(t, l) {
		want := freeqWord(step.want)
		if step.target == "Baton" || step.target == "nobody" {
			want = "INVALID_TARGET" // a server names users by their DIDs
		}
		id := step.step.id
		if id == filed.id {
			id = "" // the offer of the honest party is on record
		}
		answer := s.freeqAnswer(t, id, func() { s.freeq.Say(s.tagmsg(step.step, step.target)) })
		all = append(all, attempt{step.name, answer, want})
	}
	return all
}

// freeqLines sends lines that no server sends.
func (s *stage) freeqLines(t *testing.T, l lie) []attempt {
	t.Helper()
	mallory := newParty(t)
	offer := func() map[string]any {
		return s.tagmsg(mallory.offer(t, federation.ActTags, federation.DID(s.scout.DID), nil), channelOfStage)
	}
	text := func(m map[string]any) []byte {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	endpoint, stranger := freeqKey("endpoint of fq"), freeqKey("a stranger")
	envelope := bridgetest.Envelope(endpoint, text(offer()))
	forged := bridgetest.Envelope(stranger, text(offer()))
	type line struct {
		lie        lie
		name, want string
		line       string
	}
	var all []attempt
	for _, each := range []line{
		{lieOtherIdentity, "an envelope by another key", "bad_envelope", forged},
		{lieOtherIdentity, "a step without an envelope", "unsigned", string(text(offer()))},
		{lieTampered, "a byte of the payload", "bad_envelope", strings.Replace(envelope, `"payload":"`, `"payload":"eyJ`, 1)},
		{lieMisshapen, "no JSON", "malformed", "garbage"},
		{lieMisshapen, "an array", "malformed", "[]"},
		{lieMisshapen, "a deep array", "malformed", strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000)},
		{lieMisshapen, "a step without tags", "incomplete", bridgetest.Envelope(endpoint, []byte(`{"type":"tagmsg"}`))},
		{lieOversize, "a line of 17 MiB", "too_long", strings.Repeat("x", 17<<20)},
		{lieDoubled, "two lists of tags", "malformed", bridgetest.Envelope(endpoint, twice(t, offer(), "tags", map[string]string{"+freeq.at/act-title": "Pay"}))},
		{lieDoubled, "two payloads", "malformed", string(twice(t, map[string]any{"type": "signed", "payload": "e30", "signature": "AA", "signer": s.freeq.ID()}, "payload", "e30"))},
	} {
		if each.lie == l {
			answer := s.freeqAnswer(t, "", func() { s.freeq.SayRaw(each.line) })
			all = append(all, attempt{each.name, answer, each.want})
		}
	}
	if l == lieReplayed {
		once := offer()
		id, _ := once["event_id"].(string)
		answer := s.freeqAnswer(t, "", func() { s.freeq.Say(once); s.freeq.Say(once) })
		tags, _ := once["tags"].(map[string]string)
		s.files(tags["+freeq.at/eventid"]) // the first time it counts
		all = append(all, attempt{"a message twice, " + id[len(id)-4:], answer, "repeated"})
	}
	return all
}

// freeqShown files offers whose titles people cannot see whole, and reads the gateway's
// lines for people on the other network.
func (s *stage) freeqShown(t *testing.T) []attempt {
	t.Helper()
	var all []attempt
	for name, title := range unseen() {
		offer := s.freeqOffer(t, newParty(t), map[string]string{"act-title": title})
		line, answer := s.ircdLine(t, offer), "clean"
		if hidden(line) {
			answer = fmt.Sprintf("%q", line)
		}
		all = append(all, attempt{name, answer, "clean"})
	}
	return all
}
