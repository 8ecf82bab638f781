package main

import (
	"context"

	"github.com/baton-gateway/baton/bridge/admin"
)

type clockCommands struct {
	Accept clockAccept `cmd:"" example:"clock accept --reason \"NTP is blocked here\"" help:"Confirm the clock, so that handoffs and keys expire again."`
}

type clockAccept struct{ changeFlags }

// Help explains when the clock is unconfirmed.
func (clockAccept) Help() string {
	return `The gateway does not trust a clock that jumped by more than a minute relative to the uptime of the machine, or that
differed at startup by more than an hour from the last confirmed time. Handoffs, keys and recorded rows then do not expire until
the clock is correct again, or until NTP, most of the linked homes or this command confirm it. Compare the clock with another one
first: expired handoffs and keys cannot be restored. baton doctor reports whether the clock is confirmed.`
}

// Run confirms the clock.
func (cmd clockAccept) Run(ctx context.Context, c *cli, streams std) error {
	return change(ctx, c, streams, cmd.changeFlags, admin.AcceptClock, cmd.body(), func(changed int) string {
		if changed == 0 {
			return "the clock was confirmed already"
		}
		return "the clock is confirmed"
	})
}
