package main

import (
	"context"
	"net/http"

	"baton/bridge/operatorapi/contract"
)

// aircCommands manage the registry of AIRC agents.
type aircCommands struct {
	Release aircRelease `cmd:"" example:"airc release scout_7 --reason \"lost its key\"" help:"Release a handle: end its keys, sessions and webhooks, and allow a new registration."`
}

// aircRelease releases a handle.
type aircRelease struct {
	changeFlags

	Handle string `arg:"" help:"The handle. Its next owner inherits the inbox and the consent."`
}

// Run releases the handle.
func (cmd aircRelease) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.change(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ReleaseHandle(ctx, cmd.Handle, cmd.act())
	}, func(changed int) string {
		if changed == 0 {
			return cmd.Handle + " was released before"
		}
		return cmd.Handle + " is released: its keys, sessions and webhooks have ended, and it may be registered again"
	}, cmd.Handle)
}
