package inspircd_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// slowKeys makes key lookups of a gateway wait, except for bob's, until the test releases
// them or their context ends.
func slowKeys(h house, begun chan<- string, release <-chan struct{}) {
	h.gateway.fetch = func(ctx context.Context, ev federation.Event) {
		if ev.Arrival.Name == "bob" || ev.Verb != federation.Offer {
			return
		}
		begun <- ev.Arrival.Name
		select {
		case <-release:
		case <-ctx.Done():
		}
	}
}

// crowded returns a house whose link is up with a peer with many users, whose keys are slow to
// come.
func crowded(t *testing.T, others int) (h house, peer *bridgetest.IRCd, begun chan string, release chan struct{}) {
	t.Helper()
	cfg := peerConfig()
	for i := range others {
		cfg.Users = append(cfg.Users, fmt.Sprintf("slow%d", i))
	}
	peer = listen(t, cfg)
	h = newHouse(t, testConfig(peer.Addr()))
	begun, release = make(chan string, 2*others), make(chan struct{})
	slowKeys(h, begun, release)
	t.Cleanup(keepRunning(h, func() {}))
	if err := peer.Linked(waiting(t)); err != nil {
		t.Fatalf("link: %v\n%s", err, h.log)
	}
	return h, peer, begun, release
}

func TestJudgeDelaysNoStepBehindSlowKeys(t *testing.T) {
	const others = 20
	h, peer, begun, release := crowded(t, others)
	for i := range others {
		peer.Tagmsg(fmt.Sprintf("slow%d", i), "#ops", offerTags())
		<-begun
	}
	want := peer.Tagmsg("bob", "#ops", offerTags())
	if got := h.gateway.next(t).Arrival; got.MessageID != want {
		t.Errorf("the first step that was judged is %+v, want that of bob", got)
	}
	close(release)
	for range others {
		h.gateway.next(t)
	}
}

func TestJudgeDelaysNoStepBehindAnOffer(t *testing.T) {
	const others = 20
	h, peer, begun, release := crowded(t, others)
	offer := offerTags()
	peer.Tagmsg("alice", "#ops", offer)
	<-begun
	answer := offerTags()
	answer["+freeq.at/handoff"] = "accept"
	delete(answer, "+freeq.at/eventid")
	for i := range others { // whose keys are at hand
		peer.Tagmsg(fmt.Sprintf("slow%d", i), "#ops", answer)
	}
	own := offerTags()
	own["+freeq.at/handoff-id"], own["+freeq.at/eventid"] = acceptID, acceptID
	want := peer.Tagmsg("bob", "#ops", own)
	if got := h.gateway.next(t).Arrival; got.MessageID != want {
		t.Errorf("the first step that was judged is %+v, want that of bob", got)
	}
	close(release)
	for range 1 + others {
		h.gateway.next(t)
	}
}

func TestRunReportsTheEndBeforeItsStepsAreJudged(t *testing.T) {
	peer := listen(t, peerConfig())
	h := newHouse(t, testConfig(peer.Addr()))
	begun, release := make(chan string, 8), make(chan struct{})
	slowKeys(h, begun, release)
	ended := make(chan error, 1)
	go func() { ended <- h.link.Run(t.Context(), func() {}) }()
	if err := peer.Linked(waiting(t)); err != nil {
		t.Fatalf("link: %v\n%s", err, h.log)
	}
	want := peer.Tagmsg("alice", "#ops", offerTags())
	<-begun
	peer.Close()
	select {
	case <-h.link.Disconnected(): // although the step is not judged yet
	case <-waiting(t).Done():
		t.Fatal("the loss of the connection was not told")
	}
	close(release)
	if got := h.gateway.next(t).Arrival; got.MessageID != want {
		t.Errorf("filed %+v, want the step that was read before the end", got)
	}
	select {
	case <-ended:
	case <-waiting(t).Done():
		t.Error("the link did not end")
	}
}
