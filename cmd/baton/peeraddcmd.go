package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// peerAdd adds another home.
type peerAdd struct {
	changeFlags
	yesFlag

	URL          string `arg:"" help:"Where the home is reached, such as https://b.example."`
	AllowPrivate bool   `help:"It is at a private address, or without TLS: for tests and closed networks, with fetch.allow_private."`
}

// Help has one example.
func (peerAdd) Help() string {
	return `Reads what the home says of itself, checks TLS, clock, versions and limits, and prints that. On yes the home
is a peer, for good, and is offered a canary: a handoff that every home completes by itself. Both homes have to
add each other.

Example:

	baton peer add https://b.example`
}

// Run adds it, and fails unless the canary is green.
func (cmd peerAdd) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	ask := operatorapi.Peering{Act: operatorapi.Act{Reason: cmd.Reason, DryRun: true}, URL: cmd.URL, AllowPrivate: cmd.AllowPrivate}
	plan, err := answered[operatorapi.Peered](gateway.AddPeer(ctx, ask))
	if err != nil {
		return err
	}
	if cmd.DryRun && c.JSON {
		return printJSON(streams, plan)
	}
	if !c.JSON {
		if err := printPlan(streams, plan); err != nil {
			return err
		}
	}
	if i := slices.IndexFunc(plan.Checks, func(each operatorapi.Check) bool { return each.State == string(federation.FindingFail) }); i >= 0 {
		return fmt.Errorf("%s: %s", plan.Checks[i].Check, plan.Checks[i].Detail)
	}
	if cmd.DryRun {
		return nil
	}
	if err := cmd.ask(streams, false, "Add "+plan.Peer.Name+"?"); err != nil {
		return err
	}
	ask.DryRun = false
	done, err := answered[operatorapi.Peered](gateway.AddPeer(ctx, ask))
	if err != nil {
		return err
	}
	return cmd.tell(c, streams, done)
}

// tell says what came of it.
func (peerAdd) tell(c *cli, streams std, done operatorapi.Peered) error {
	var err error
	switch canary := done.Canary; {
	case c.JSON:
		err = printJSON(streams, done)
	case canary.Green:
		_, err = fmt.Fprintf(streams.out, "%s is added. canary: green, offered, accepted and completed in %s\n", done.Peer.Name, canary.Took)
	default:
		_, err = fmt.Fprintf(streams.out, "%s is added.\n", done.Peer.Name)
	}
	if err == nil && !done.Canary.Green {
		err = &federation.UnavailableError{What: "canary", Err: errors.New(done.Canary.Reason)}
	}
	return err
}

// printPlan writes what was found out, a line each.
func printPlan(streams std, plan operatorapi.Peered) error {
	fmt.Fprintf(streams.out, "home %s at %s\n", shown(plan.Peer.Name), shown(plan.Peer.URL))
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	for _, each := range plan.Checks {
		fmt.Fprintf(out, "%s\t%s\t%s\n", shown(each.State), shown(each.Check), shown(each.Detail))
	}
	return out.Flush()
}

// peerRemove ends what peerAdd did.
type peerRemove struct {
	changeFlags
	yesFlag

	Name string `arg:"" help:"The name of the home."`
}

// Help has one example.
func (peerRemove) Help() string { return "Example:\n\n\tbaton peer remove b.example" }

// Run removes it.
func (cmd peerRemove) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Name)
	if err != nil {
		return err
	}
	if err := cmd.ask(streams, cmd.DryRun, "Remove "+cmd.Name+"? What it is owed waits."); err != nil {
		return err
	}
	gone, err := answered[operatorapi.Peer](gateway.RemovePeer(ctx, cmd.Name, &contract.RemovePeerParams{Reason: cmd.Reason, DryRun: cmd.dry()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, gone)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(gone.Name+" is removed"))
	return err
}
