package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/federation"
)

type healthcheck struct {
	Peers bool          `help:"Also check the links to other homes. Do not use it for a container probe: other operators start and stop their homes."`
	Wait  time.Duration `help:"Maximum time to wait for a starting gateway; 0 does not wait." default:"0s" placeholder:"DURATION"`
}

const checkEvery = 200 * time.Millisecond

// Run fails as unavailable, with the reasons, if the gateway is not ready within the timeout.
func (cmd healthcheck) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	if cmd.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmd.Wait)
		defer cancel()
	}
	var why error
	for {
		ready, err := cmd.check(ctx, gateway)
		if err == nil {
			return printLine(c, streams, ready, "ready")
		}
		if why == nil || ctx.Err() == nil { // the end of the wait is not the reason
			why = err
		}
		if bridge.Sleep(ctx, checkEvery); cmd.Wait <= 0 || ctx.Err() != nil {
			return why
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
