package relay_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

// twin returns a home of the same name and key as another, with an empty record, that
// knows the homes that it knows.
func twin(t *testing.T, of *gate) *gate {
	t.Helper()
	g := newGates(t, of.id)[0]
	clear(g.people)
	maps.Copy(g.people, of.people)
	ring, ok := g.home.Keys.(*keyring)
	if !ok {
		t.Fatal("a home has another key source")
	}
	for id := range of.peers {
		ring.keys[id.DID()] = keyOf(string(id)).Public
	}
	return g
}

func beside(a, b *gate) {
	a.peers[b.id] = relay.NewPeer(relay.PeerConfig{Home: b.id, URL: b.server.URL, Mode: relay.Allow}, a.deps)
	b.peers[a.id] = relay.NewPeer(relay.PeerConfig{Home: a.id, URL: a.server.URL, Mode: relay.Allow}, b.deps)
}

// runUntil keeps the link from one home to another running until stop.
func (g *gate) runUntil(to *gate) (stop func()) {
	g.t.Helper()
	return g.keepUp(g.peers[to.id])
}

// keepUp runs a peer until stop, and returns when its link is up.
func (g *gate) keepUp(peer *relay.Peer) (stop func()) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	ended, up := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = peer.Run(ctx, func() { close(up) })
	}()
	g.waitUp(up)
	return func() { cancel(); <-ended }
}

func TestCompareRestoresAnOlderCopy(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop, stopBack := a.runUntil(b), b.runUntil(a)
	var ids []federation.HandoffID
	for range 3 {
		_, offer := a.take("alice", federation.Offer, to("bob"))
		ids = append(ids, offer.ID)
	}
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	b.take("bob", federation.Accept, in(ids[0]))
	b.comes(ids[0], "offer accept")
	stop()
	stopBack()
	older := twin(t, b)
	beside(a, older)
	a.run(older)
	older.comes(ids[0], "offer accept")
	older.comes(ids[1], "offer")
	older.comes(ids[2], "offer")
	if done, err := a.peers["b.test"].Compare(t.Context()); err != nil || done.Sent > 0 {
		t.Errorf("%d handoffs are sent once more, %v", done.Sent, err)
	}
	inbox, err := older.record.Replay(t.Context(), keyOf("bob").DID, "", 10)
	if err != nil || len(inbox) != len(ids) {
		t.Errorf("bob has %d entries, %v; want %d", len(inbox), err, len(ids))
	}
}

func TestCompareProvesAnotherHistory(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	stop := a.runUntil(b)
	_, offer := a.take("alice", federation.Offer, to("bob"))
	a.take("alice", federation.Cancel, in(offer.ID))
	if err := a.deliver(b); err != nil {
		t.Fatal(err)
	}
	b.comes(offer.ID, "offer cancel")
	stop()
	liar := twin(t, a) // it has the offer, and then tells something else
	beside(liar, b)
	if _, err := liar.home.Submit(t.Context(), offer, time.Now()); err != nil {
		t.Fatal(err)
	}
	rows, err := liar.record.Outbox(t.Context(), "b.test", federation.Delivery{}, 10)
	if err != nil || len(rows) != 1 {
		t.Fatal(len(rows), err)
	}
	if err := liar.record.Rows().Settle(t.Context(), "b.test", []int64{rows[0].Row}, federation.Settlement{At: federationtest.At(0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := liar.home.Submit(t.Context(), liar.sign("bob", federation.Accept, in(offer.ID)), time.Now()); err != nil {
		t.Fatal(err)
	}
	liar.run(b)
	await(t, func() bool {
		forks, err := b.record.Forks(t.Context(), "a.test", 10)
		return err == nil && len(forks) == 1
	})
	if got := b.log(offer.ID); got != "offer cancel" {
		t.Errorf("b has %q now", got)
	}
	if done, err := liar.peers["b.test"].Compare(t.Context()); err != nil || done.Sent > 0 {
		t.Errorf("what is proved is asked for again: %d, %v", done.Sent, err)
	}
}
