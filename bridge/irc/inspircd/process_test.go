package inspircd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestJudgeDelaysOnlyTheUserWithASlowKey(t *testing.T) {
	h, peer := linked(t, nil)
	begun, release := make(chan struct{}, 8), make(chan struct{})
	h.gateway.answer = func(_ context.Context, ev federation.Event) error {
		if ev.Arrival.Name == "alice" {
			begun <- struct{}{}
			<-release
		}
		return nil
	}
	peer.Tagmsg("alice", "#ops", offerTags())
	<-begun
	want := peer.Tagmsg("bob", "#ops", offerTags())
	if got := h.gateway.next(t).Arrival; got.Name != "bob" || got.MessageID != want {
		t.Errorf("the first step that was judged is %+v, want that of bob", got)
	}
	close(release)
	if got := h.gateway.next(t).Arrival.Name; got != "alice" {
		t.Errorf("the second is %s's, want alice's", got)
	}
}

func TestJudgeKeepsAnAnswerBehindItsOffer(t *testing.T) {
	h, peer := linked(t, nil)
	begun, release := make(chan struct{}, 1), make(chan struct{})
	h.gateway.answer = func(_ context.Context, ev federation.Event) error {
		if ev.Verb == federation.Offer {
			begun <- struct{}{}
			<-release
			return nil
		}
		select {
		case <-release:
			return nil
		default:
			return errors.New("the answer was judged before the offer")
		}
	}
	offer := offerTags()
	peer.Tagmsg("alice", "#ops", offer)
	<-begun
	answer := offerTags()
	answer["+freeq.at/handoff"], answer["+freeq.at/handoff-id"] = "accept", offer["+freeq.at/handoff-id"]
	delete(answer, "+freeq.at/eventid")
	peer.Tagmsg("bob", "#ops", answer)
	close(release)
	for _, verb := range []federation.Verb{federation.Offer, federation.Accept} {
		if got := h.gateway.next(t).Verb; got != verb {
			t.Errorf("%s was filed, want %s", got, verb)
		}
	}
}
