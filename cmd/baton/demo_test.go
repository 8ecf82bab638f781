package main_test

import (
	"testing"

	main "github.com/baton-gateway/baton/cmd/baton"
)

// The demonstration writes to its link as soon as the gateway is ready.
func TestDemoGatewayIsNotReadyBeforeItsLinkIsUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(t, deadLink(t, h))
	gateway, err := main.OpenDemo(t.Context(), h.config)
	if err != nil {
		t.Fatal(err)
	}
	if gateway.Ready(t.Context()) {
		t.Error("ready although no server answers the link")
	}
	if err := gateway.Close(); err != nil {
		t.Error(err)
	}
}
