package main

import (
	"context"
	"net/http"

	"baton/bridge/operatorapi/contract"
)

// clockCommands confirm the clock of the machine.
type clockCommands struct {
	Accept clockAccept `cmd:"" example:"clock accept --reason \"NTP is blocked here\"" help:"Confirm the clock, so that handoffs and keys expire by it again."`
}

// clockAccept confirms the clock.
type clockAccept struct{ changeFlags }

// Help explains when the clock is unconfirmed.
func (clockAccept) Help() string {
	return `The gateway does not trust a clock that moved by more than a minute against the uptime of the machine, or that
stands more than an hour from the last confirmed time at the start. Until the clock comes back, or NTP, most of the
linked homes or this command confirm it, nothing expires by it: neither handoffs nor keys nor rows on record. Compare the
clock with another one first: what has expired does not come back. baton doctor says whether the clock is confirmed.`
}

// Run confirms the clock.
func (cmd clockAccept) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.change(c, streams, func(api *contract.Client) (*http.Response, error) { return api.AcceptClock(ctx, cmd.act()) }, func(changed int) string {
		if changed == 0 {
			return "the clock was confirmed already"
		}
		return "the clock is confirmed"
	})
}
