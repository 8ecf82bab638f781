package freeq_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
)

// ruled returns a step by scout in a handoff of the server. The server has confirmed the step, so
// only its line remains to be written.
func (h *house) ruled(t *testing.T) federation.Delivery {
	t.Helper()
	alice, _ := person("alice")
	scout, _ := person("scout")
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	v := federation.View{
		ID: id, Kind: federation.Handoff, Dialect: federation.ActTags, Version: 1, State: federation.Offered, Home: theirs, Remote: true,
		Venue: channel, Offerer: alice, Offeree: scout,
	}
	return h.step(t, federation.Delivery{View: v}, "scout", federation.Accept, federation.Assigned)
}

// lines counts the lines for people that the gateway wrote.
func (h *house) lines() (n int) {
	for _, m := range h.server.Said() {
		if isLine(m) {
			n++
		}
	}
	return n
}

func TestDeliverSkipsALineDroppedByAModeratedChannel(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	h.server.Moderate(channel, true)
	h.deliver(t, h.ruled(t))
	h.deliver(t, h.offered(t, channel))
	h.expectNothingOdd(t)
}

func TestDeliverWritesALineAtMostTwice(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	h.server.Moderate(channel, true)
	d := h.ruled(t)
	h.deliver(t, d)
	h.hasLines(t, 2)
	h.deliver(t, h.offered(t, channel)) // with its own line, and reads the log
	h.hasLines(t, 4)
	d.Attempt++
	h.deliver(t, d)
	about := 0
	for _, m := range h.server.Said() {
		if tags, _ := m["tags"].(map[string]any); isLine(m) && tags["+freeq.at/ref"] == d.View.ID.String() {
			about++
		}
	}
	if about != 2 {
		t.Errorf("the line is written %d times, want twice", about)
	}
	h.expectNothingOdd(t)
}

// A server drops a text with a known ID, and logs it only under its first time.
func TestDeliverTextAfterARestart(t *testing.T) {
	said := &messages{back: make(chan federation.DID, 10)}
	h := newHouse(t, func(_ *freeq.Config, d *freeq.Deps) { d.Messages = said })
	h.run(t)
	alice := h.present(t)
	words, line := h.words(t, "alice"), h.ruled(t)
	h.deliver(t, words)
	h.deliver(t, line)
	if err := h.server.AwaitFiled(patient(t), words.Entry.Text.ID.String()); err != nil {
		t.Fatal(err)
	}
	h.server.Spread(1)
	h.restart(t)
	words.Attempt, line.Attempt = 1, 1
	h.deliver(t, words)
	h.deliver(t, line)
	// The line of a step is written after its delivery.
	if lines, err := alice.AwaitRead(patient(t), 2); err != nil || len(lines) != 2 || lines[0].ID == lines[1].ID {
		t.Errorf("alice reads %+v, %v, want each line once", lines, err)
	}
	h.expectNothingOdd(t)
}

// A server shows every TAGMSG to its users, even for a step that it already has.
func TestDeliverShowsNoStepTwiceAfterARestart(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	h.server.Mute(federation.Confirm, true)
	scout, _ := person("scout")
	p := h.guest(t, federation.Accept, scout)
	if err := h.server.AwaitFiled(patient(t), p.Event.ID.String()); err != nil {
		t.Fatal(err)
	}
	h.restart(t)
	isRoute := func(m map[string]any) bool {
		return m["type"] == "act_route" && m["act_event_id"] == p.Event.ID.String()
	}
	if _, err := h.server.AwaitLine(patient(t), "the route", isRoute); err != nil {
		t.Fatal(err)
	}
	shown := h.server.Shown(p.Event.Handoff.String())
	if len(shown) != 2 || shown[0].Verb != "offer" || shown[1].Verb != "accept" {
		t.Errorf("users are shown %+v, want the offer and the accept", shown)
	}
	h.expectNothingOdd(t)
}

func TestPingNoticesADeadServerWithinThreeSeconds(t *testing.T) {
	for name, pending := range map[string]func(h *house){
		"while a step waits for its proof": func(h *house) {
			d := h.offered(t, channel)
			go func() { _ = h.link.Deliver(t.Context(), d) }() // its error is the end of the link
		},
		"while a step waits for the ruling of the server": func(h *house) { h.awaits(t, h.ruled(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.run(t)
			h.server.Die()
			pending(h)
			start := time.Now()
			err := <-h.ended
			h.ended <- err
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("noticed after %s: %v", took, err)
			}
		})
	}
}

// After a slow answer the timeout is longer.
func TestAnswerTimeoutFollowsMeasuredTimes(t *testing.T) {
	quick := freeq.AnswerTimeout(0, 50*time.Millisecond, 60*time.Millisecond)
	slow := freeq.AnswerTimeout(0, time.Second, 3*time.Second, time.Second)
	missed := freeq.AnswerTimeout(2, 50*time.Millisecond)
	endless := freeq.AnswerTimeout(9, time.Minute)
	if quick != 2*time.Second || slow <= 3*time.Second || missed != 8*time.Second || endless != 15*time.Second {
		t.Errorf("timeouts %s, %s, %s, %s", quick, slow, missed, endless)
	}
}
