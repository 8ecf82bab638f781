package main

import (
	"context"
	"fmt"
	"net/http"

	"baton/bridge/operatorapi/contract"
)

// linkChange is what the commands that switch a link share.
type linkChange struct {
	changeFlags

	Name string `arg:"" help:"The name of the link."`
}

// ask asks the gateway for a verb of the link, and prints what became of it.
func (cmd linkChange) ask(ctx context.Context, c *cli, streams std, verb, done string) error {
	return cmd.change(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ChangeLink(ctx, cmd.Name, verb, cmd.act())
	}, func(changed int) string {
		if changed == 0 {
			return fmt.Sprintf("link %s was so already", cmd.Name)
		}
		return fmt.Sprintf("link %s %s", cmd.Name, done)
	}, cmd.Name)
}

// linkDown disconnects a link.
type linkDown struct{ linkChange }

// Run disconnects the link and waits until it is down.
func (cmd linkDown) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.ask(ctx, c, streams, "down", "is disconnected")
}

// linkUp connects a link.
type linkUp struct{ linkChange }

// Run connects the link.
func (cmd linkUp) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.ask(ctx, c, streams, "up", "connects")
}

// linkDial dials a link.
type linkDial struct{ linkChange }

// Run dials the link.
func (cmd linkDial) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.ask(ctx, c, streams, "dial", "dials now")
}
