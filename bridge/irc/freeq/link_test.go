package freeq_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

func isStep(verb string) func(map[string]any) bool {
	return func(m map[string]any) bool {
		tags, _ := m["tags"].(map[string]any)
		return m["type"] == "tagmsg" && tags["+freeq.at/act-verb"] == verb
	}
}

// isDone has alice, on the server, work on an offer of scout, at this gateway, in a handoff of a
// home.
func isDone(t *testing.T, of federation.HomeID) {
	t.Helper()
	for name, venue := range map[string]func() string{
		"in a channel": func() string { return channel },
		"in private": func() string {
			scout, _ := person("scout")
			alice, _ := person("alice")
			return federation.PrivateVenue(scout, alice)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.run(t)
			alice := h.present(t)
			d := h.offered(t, venue())
			d.View.Home, d.View.Numbered = of, of != home
			h.gateway.know(d.View)
			h.deliver(t, d)
			if err := h.server.AwaitState(patient(t), d.View.ID, federation.Offered); err != nil {
				t.Fatal(err)
			}
			target := channel
			if federation.Private(d.View.Venue) {
				scout, _ := person("scout")
				target = string(scout)
			}
			if _, err := alice.Step(target, d.View.ID, federation.Accept, ""); err != nil {
				t.Fatal(err)
			}
			accept := h.gateway.next(t)
			if accept.Verb != federation.Accept || accept.Venue != d.View.Venue || accept.Arrival.Home != theirs || accept.Arrival.Name != "alice" {
				t.Errorf("submitted %+v", accept)
			}
			filed := d
			filed.View.Version, filed.View.State, filed.View.Assignee = 2, federation.Assigned, alice.DID
			filed.Entry = federation.Entry{Event: accept, Version: 2, State: federation.Assigned, Filed: accept.Arrival.Received}
			h.deliver(t, filed)
			if err := h.server.AwaitState(patient(t), d.View.ID, federation.Assigned); err != nil {
				t.Fatal(err)
			}
			receipt, err := h.server.AwaitLine(patient(t), "the receipt", isStep("confirm"))
			if err != nil {
				t.Fatal(err)
			}
			want := target
			if federation.Private(d.View.Venue) {
				want = string(alice.DID)
			}
			if receipt["from"] != string(home) || receipt["target"] != want || receipt["account"] != "did:web:"+string(home) {
				t.Errorf("receipt %v", receipt)
			}
			h.expectNothingOdd(t)
		})
	}
}

func TestLinkCompletesAHandoffOfThisHome(t *testing.T) { isDone(t, home) }

// Users of the server also complete handoffs whose homes are other gateways: to that, this gateway
// is the home.
func TestLinkCompletesAHandoffOfAThirdHome(t *testing.T) { isDone(t, "third.test") }

func TestLinkSignsTheEndOfAThirdHomesHandoff(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	d.View.Home, d.View.Numbered = "third.test", true
	h.gateway.know(d.View)
	h.deliver(t, d)
	end := h.step(t, d, "scout", federation.Expire, federation.Expired)
	end.Entry.Event.From = end.View.Home.DID()
	h.deliver(t, end)
	if err := h.server.AwaitState(patient(t), d.View.ID, federation.Expired); err != nil {
		t.Fatal(err)
	}
	expiry, err := h.server.AwaitLine(patient(t), "the expiry", isStep("expire"))
	if err != nil {
		t.Fatal(err)
	}
	if expiry["from"] != string(home) || expiry["account"] != string(home.DID()) {
		t.Errorf("expiry %v", expiry)
	}
	h.expectNothingOdd(t)
}

// A step waiting for its home is answered by no receipt, however often it comes.
func TestLinkSendsNoReceiptBeforeAThirdHomeRuled(t *testing.T) {
	h := newHouse(t)
	var asked atomic.Int32
	h.gateway.answer = func(ev federation.Event) (federation.Judgement, error) {
		view, err := h.gateway.View(t.Context(), ev.Handoff)
		waits := federation.Entry{Event: ev, State: view.State, Filed: time.Now().Add(-time.Minute)}
		return federation.Judgement{Verdict: federation.Valid, View: view, Entry: waits, Awaits: true, Duplicate: asked.Add(1) > 1}, err
	}
	h.run(t)
	alice := h.alice()
	d := h.offered(t, channel)
	d.View.Home, d.View.Numbered = "third.test", true
	h.gateway.know(d.View)
	h.deliver(t, d)
	accept, err := alice.Step(channel, d.View.ID, federation.Accept, "")
	if err != nil {
		t.Fatal(err)
	}
	h.gateway.next(t)
	h.server.Route(accept)
	h.gateway.next(t)
	h.deliver(t, h.offered(t, channel)) // all before it was answered
	for _, m := range h.server.Said() {
		if isStep("confirm")(m) {
			t.Errorf("it is confirmed: %v", m)
		}
	}
}

func TestSummaryNamesTheDIDOfItsSpeaker(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	line, err := h.server.AwaitLine(patient(t), "the line", func(m map[string]any) bool { return m["type"] == "privmsg" })
	if err != nil {
		t.Fatal(err)
	}
	text, _ := line["text"].(string)
	tags, _ := line["tags"].(map[string]any)
	if !strings.HasSuffix(text, "<"+string(d.Entry.Event.From)+">") || tags["+freeq.at/ref"] != d.View.ID.String() {
		t.Errorf("line %v", line)
	}
	d.Attempt = 1
	h.deliver(t, d)
	again := 0
	for _, m := range h.server.Said() {
		if m["type"] == "privmsg" {
			again++
		}
	}
	if again != 1 {
		t.Errorf("%d lines, want one", again)
	}
	h.expectNothingOdd(t)
}

func TestNicksYieldToUsersOfTheServer(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	step, err := h.server.AwaitLine(patient(t), "the offer", isStep("offer"))
	if err != nil {
		t.Fatal(err)
	}
	// A message of that nick may be under way when the other user takes the nick: that is no
	// mistake of either side.
	if _, err := h.server.AwaitLine(patient(t), "its line", func(m map[string]any) bool { return m["type"] == "privmsg" }); err != nil {
		t.Fatal(err)
	}
	nick, _ := step["from"].(string)
	did, key := person("usurper")
	h.server.Join(nick, did, key)
	_, err = h.server.AwaitLine(patient(t), "another nick", func(m map[string]any) bool {
		return m["type"] == "join" && m["did"] == string(d.Entry.Event.From) && m["nick"] != nick
	})
	if err != nil {
		t.Fatal(err)
	}
	h.expectNothingOdd(t)
}

func TestKickedUserComesBackWithItsNextStep(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	step, err := h.server.AwaitLine(patient(t), "the offer", isStep("offer"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.server.AwaitLine(patient(t), "its line", func(m map[string]any) bool { return m["type"] == "privmsg" }); err != nil {
		t.Fatal(err)
	}
	nick, _ := step["from"].(string)
	h.server.Say(h.server.Event(map[string]any{"type": "kick", "nick": nick, "channel": "#OPS", "by": "alice", "reason": ""}))
	h.server.Kicked(channel, nick)
	if _, err := h.alice().Offer(channel, "", "after the kick"); err != nil {
		t.Fatal(err)
	}
	h.gateway.next(t) // and so the kick was read
	h.deliver(t, h.step(t, d, "scout", federation.Cancel, federation.Cancelled))
	if err := h.server.AwaitMember(patient(t), channel, nick); err != nil {
		t.Fatal(err)
	}
	h.expectNothingOdd(t)
}

func TestDeliverKeepsTheOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.run(t)
	d := h.offered(t, channel)
	h.deliver(t, d)
	for range 200 {
		h.deliver(t, h.step(t, d, "scout", "x-note", federation.Offered))
	}
	if n := h.server.Dropped(); n != 0 {
		t.Errorf("%d messages were too fast for the server", n)
	}
}
