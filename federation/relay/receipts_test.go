package relay_test

import (
	"context"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
)

// impostor is a way to another home on which a third party answers in its place.
type impostor struct {
	*gate
	as federation.SigningKey
}

func (i impostor) Post(ctx context.Context, address string, e relay.Envelope) (relay.Envelope, error) {
	answer, err := i.gate.Post(ctx, address, e)
	if err == nil {
		answer.Signature, err = signing.SignHome(ctx, i.as, answer.Body)
	}
	return answer, err
}

// A receipt signed by another home ends no delivery.
func TestReceiptsOfOtherHomesAreRefused(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b, mallory := all[0], all[1], all[2]
	deps := a.deps
	deps.Poster = impostor{a, mallory.key}
	a.peers["b.test"] = relay.NewPeer(relay.PeerConfig{Home: "b.test", URL: b.server.URL, Mode: relay.Allow}, deps)
	a.take("alice", federation.Offer, to("bob"))
	err := a.peers["b.test"].Run(t.Context(), func() { t.Error("it is taken for the home") })
	if err == nil || !strings.Contains(err.Error(), "not signed by it") {
		t.Errorf("the session ended with %v", err)
	}
	if err := a.deliver(b); err == nil {
		t.Error("a row ended without the other home's word")
	}
	rows, err := a.record.Outbox(t.Context(), "b.test", federation.Delivery{}, 10)
	if err != nil || len(rows) != 1 {
		t.Errorf("%d rows are owed (%v), want one", len(rows), err)
	}
}
