package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/federation"
)

// healthcheck reports whether the gateway is ready.
type healthcheck struct {
	Peers bool          `help:"Check the links to other homes too. Leave it out for a container: their operators start and stop them."`
	Wait  time.Duration `help:"How long to wait for a gateway that starts; 0 does not wait." default:"0s" placeholder:"DURATION"`
}

// checkEvery is the pause between two checks of a gateway that starts.
const checkEvery = 200 * time.Millisecond

// Run fails as unavailable, with the reasons, when the gateway is not ready.
func (cmd healthcheck) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(cmd.Wait)
	for {
		ready, err := cmd.check(ctx, gateway)
		if err == nil {
			return printLine(c, streams, ready, "ready")
		}
		if !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-time.After(checkEvery):
		case <-ctx.Done():
			return err
		}
	}
}

func (cmd healthcheck) check(ctx context.Context, gateway *client.Client) (admin.Readiness, error) {
	ready, err := gateway.Readiness(ctx, cmd.Peers)
	if err == nil && !ready.Ready {
		err = &federation.UnavailableError{What: "gateway", Err: errors.New(strings.Join(ready.Reasons, "; "))}
	}
	return ready, err
}
