package client_test

import (
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/client"
)

func TestCapabilityChangeIsAnnounced(t *testing.T) {
	t.Parallel()
	var limits bridge.LiveLimits
	limits.Set(bridge.Limits{MaxDeadline: time.Hour})
	h := start(t, testConfig(), func(d *client.Deps) { d.Limits = &limits })
	peers := play(t, h, `
		new > CAP LS 302
		new < *freeq.at/handoff=context=4096,deadline=3600*
		old joins`)
	limits.Set(bridge.Limits{})
	peers["new"].until(t, ":gw.example CAP * NEW :freeq.at/handoff=context=4096")
	peers["old"].say(t, "PING still") // a client that did not ask for it gets nothing
	if got := peers["old"].hear(t); !matches("*PONG*still", got) {
		t.Errorf("old hears %q", got)
	}
}
