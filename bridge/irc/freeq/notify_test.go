package freeq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// toldTo awaits a private line to a user, which must begin with some words.
func (h *house) toldTo(t *testing.T, nick, words string, handoff federation.HandoffID) {
	t.Helper()
	line, err := h.server.AwaitLine(patient(t), words, func(m map[string]any) bool {
		text, _ := m["text"].(string)
		return m["type"] == "privmsg" && m["target"] == nick && strings.HasPrefix(text, words)
	})
	if err != nil {
		t.Fatal(err)
	}
	tags, _ := line["tags"].(map[string]any)
	if line["from"] != "Baton-gw" || tags["+freeq.at/ref"] != handoff.String() {
		t.Errorf("line %v", line)
	}
}

func TestNotifyInformsTheSigner(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	alice := h.alice()
	if _, err := alice.Offer(channel, "", "Review it"); err != nil {
		t.Fatal(err)
	}
	offer := h.gateway.next(t)
	if err := h.link.Notify(t.Context(), federation.Notice{Kind: federation.NoticeDelayed, Event: offer, To: "finn"}); err != nil {
		t.Fatal(err)
	}
	h.toldTo(t, alice.Nick, "DELAYED "+offer.ID.String()+" your offer of handoff "+offer.Handoff.Short()+" has not reached finn yet", offer.Handoff)
	if err := h.link.Notify(t.Context(), federation.Notice{Kind: federation.NoticeRefused, Event: offer, Why: "the handoff is unknown"}); err != nil {
		t.Fatal(err)
	}
	h.toldTo(t, alice.Nick, "REFUSED "+offer.ID.String()+" your offer of handoff "+offer.Handoff.Short()+" was refused: the handoff is unknown", offer.Handoff)
	h.expectNothingOdd(t)
}

func TestNotifyRetriesForAnAbsentSigner(t *testing.T) {
	h := newHouse(t)
	d := h.offered(t, channel)
	notice := federation.Notice{Kind: federation.NoticeUndeliverable, Event: d.Entry.Event}
	later := func(when string) {
		t.Helper()
		if _, ok := errors.AsType[*federation.UnavailableError](h.link.Notify(t.Context(), notice)); !ok {
			t.Errorf("%s it is not told later", when)
		}
	}
	later("without a link")
	h.run(t)
	later("without the user")
	if err := h.link.Notify(t.Context(), federation.Notice{Kind: federation.NoticeDelivered, Event: d.Entry.Event}); err != nil {
		t.Errorf("of what shows: %v", err)
	}
	for _, m := range h.server.Said() {
		if m["type"] == "privmsg" {
			t.Errorf("somebody is told: %v", m)
		}
	}
}

// A connection that ends before the server has answered a probe leaves open whether the line was read.
func TestNotifyNeedsAnAnswer(t *testing.T) {
	h := newHouse(t)
	h.run(t)
	alice := h.alice()
	if _, err := alice.Offer(channel, "", "Review it"); err != nil {
		t.Fatal(err)
	}
	offer := h.gateway.next(t)
	h.server.Stall(500 * time.Millisecond)
	told := make(chan error, 1)
	go func() {
		told <- h.link.Notify(context.Background(), federation.Notice{Kind: federation.NoticeDelayed, Event: offer, To: "finn"})
	}()
	select {
	case err := <-told:
		t.Fatalf("told without proof: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	h.server.Cut()
	if _, later := errors.AsType[*federation.UnavailableError](<-told); !later {
		t.Error("a cut is not told as a not-now")
	}
}
