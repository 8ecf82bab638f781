package freeq_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/irc/freeq"
)

// A server makes no user an operator of a channel that a user of the gateway has made.
func TestChannelsAreNeverCreated(t *testing.T) {
	const unmade = "#new"
	h := newHouse(t, func(cfg *freeq.Config, _ *freeq.Deps) { cfg.Channels = []string{channel, unmade} })
	h.run(t)
	alice := h.alice()
	h.deliver(t, h.offered(t, channel))
	h.expectNothingOdd(t)
	alice.Make(unmade)
	if err := h.server.AwaitMember(patient(t), unmade, "Baton-gw"); err != nil {
		t.Error(err)
	}
	h.expectNothingOdd(t)
}
