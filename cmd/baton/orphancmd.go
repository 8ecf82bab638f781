package main

import (
	"context"
	"errors"
	"net/http"

	"baton/bridge/operatorapi/contract"
)

// orphanCommands settle handoffs whose home has lost them.
type orphanCommands struct {
	End orphanEnd `cmd:"" help:"End one here, and tell its parties."`
}

// orphanEnd ends a handoff whose home has lost it.
type orphanEnd struct {
	changeFlags
	yesFlag

	ID string `arg:"" help:"The id of the handoff, or its last six characters or more."`
}

// Help has one example.
func (orphanEnd) Help() string {
	return `Ends a handoff of another home here. Its home was restored to before its steps and does not take them back, or
nothing was heard of it for a day: baton handoff show says which. The parties here read the reason. Should the
home come back, its later steps of this handoff are refused here.

Example:

	baton handoff orphan end Y6Z0AB --reason "b.example was restored from the backup of Monday"`
}

// Run ends it, and prints how it is then.
func (cmd orphanEnd) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.Reason == "" {
		return &usageError{errors.New("--reason says why, for the parties and the audit log")}
	}
	if err := cmd.ask(streams, cmd.DryRun, "End "+cmd.ID+" here?"); err != nil {
		return err
	}
	return report(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.EndOrphan(ctx, cmd.ID, cmd.act())
	}, func(done contract.Handoff) string {
		if cmd.DryRun {
			return cmd.said(done.ID.String() + " ends: " + done.OrphanReason)
		}
		return done.ID.String() + " " + string(done.State)
	}, cmd.ID)
}
