package macp_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// An erasure removes the history of an ended session, and leaves and names one whose work goes on.
func TestErasureRemovesEndedSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "target")
	for n, verb := range []federation.Verb{federation.Decline, federation.Accept} {
		w.begin(t, session(n), "owner", "target")
		w.send(t, envelope(t, session(n), macpmode.TypeOffer, "o", "owner", offerTo("target")))
		var answer proto.Message = &handoffv1.HandoffDeclinePayload{HandoffId: "h1"}
		kind := macpmode.TypeDecline
		if verb == federation.Accept {
			answer, kind = &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}, macpmode.TypeAccept
		}
		w.send(t, envelope(t, session(n), kind, "a", "target", answer))
		if ack := w.send(t, envelope(t, session(n), macpmode.TypeCommitment, "c", "owner", &macpv1.CommitmentPayload{
			CommitmentId: "c", Action: "handoff." + string(verb), AuthorityScope: "s", Reason: "r", ModeVersion: "1.0.0", ConfigurationVersion: "test", OutcomePositive: verb == federation.Accept,
		})); !ack.GetOk() {
			t.Fatal(ack)
		}
	}
	eraser, able := w.link.(bridge.Eraser)
	if !able {
		t.Fatal("the link erases nothing")
	}
	await(t, "both answers to be filed", func() bool { return len(w.gateway.filed()) == 4 })
	var ids []federation.HandoffID
	for _, step := range w.gateway.filed() {
		if step.Verb == federation.Offer {
			ids = append(ids, step.Handoff)
		}
	}
	erase := func(dry bool) (erased int, running []string) {
		t.Helper()
		erased, running, err := eraser.EraseJournals(t.Context(), ids, dry)
		if err != nil {
			t.Fatal(err)
		}
		return erased, running
	}
	going := []string{"macp/session/" + session(1)}
	length := func(n int) uint64 {
		length, _ := w.deps.Journals.JournalLength(t.Context(), "macp/session/"+session(n)) // an unknown journal has none
		return length
	}
	await(t, "the ended session to be filed whole", func() bool { n, _ := erase(true); return n == 1 })
	if length(0) == 0 {
		t.Error("the dry run removed it")
	}
	if n, running := erase(false); n != 1 || length(0) != 0 || length(1) == 0 {
		t.Errorf("the erasure removes %d, the rest is %v", n, running)
	}
	if n, running := erase(false); n != 0 || !slices.Equal(running, going) {
		t.Errorf("the second erasure removes %d, the rest is %v", n, running)
	}
	w.report(t, session(1), "complete")
	await(t, "the other session to be removed", func() bool { erase(false); return length(1) == 0 })
}

// The copy of a session on another runtime goes, with its names, once its handoff is over.
func TestErasureRemovesTheCopyOfAForeignSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bob", "baton")
	bob := bridgetest.NewMACPClient(w.cfg.Listen, "bob", token("bob"))
	t.Cleanup(bob.Close)
	g := newGuest(t, w.cfg.Listen, token("baton"))
	guestOffers(t, g, bob)
	eraser, able := g.link.(bridge.Eraser)
	if !able {
		t.Fatal("the link erases nothing")
	}
	ids := []federation.HandoffID{{1, 2, 3}}
	if n, running, err := eraser.EraseJournals(t.Context(), ids, false); n != 0 || len(running) != 1 || err != nil {
		t.Errorf("with open work the erasure removes %d, the rest is %v, %v", n, running, err)
	}
	done := answer(ids[0], federation.Complete, "done")
	done.From = bobDID
	g.take(t, done)
	await(t, "the copy to be removed", func() bool {
		n, _, err := eraser.EraseJournals(t.Context(), ids, false)
		return n == 1 && err == nil
	})
	left, err := g.deps.Journals.JournalNames(t.Context(), "macp/", "", 10)
	if err != nil || len(left) > 0 {
		t.Errorf("the journals left are %v, %v", left, err)
	}
}
