package main

import (
	"context"
	"errors"
	"strings"

	"baton/federation"
)

// healthcheck reports whether the gateway is ready.
type healthcheck struct {
	Peers bool `help:"Check the links to other homes too. Leave it out for a container: their operators start and stop them."`
}

// Run fails as unavailable, with the reasons, when the gateway is not ready.
func (cmd healthcheck) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	ready, err := gateway.Readiness(ctx, cmd.Peers)
	switch {
	case err != nil:
		return err
	case !ready.Ready:
		return &federation.UnavailableError{What: "gateway", Err: errors.New(strings.Join(ready.Reasons, "; "))}
	}
	return printLine(c, streams, ready, "ready")
}
