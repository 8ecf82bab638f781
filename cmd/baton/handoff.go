package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/federation"
)

type handoffCommands struct {
	List   handoffList   `cmd:"" example:"handoff list --state assigned --since 24h" help:"List handoffs, most recently changed first."`
	Show   handoffShow   `cmd:"" example:"handoff show Y6Z0AB" help:"Show one handoff with its steps."`
	Export handoffExport `cmd:"" help:"Write the passport of one handoff."`
	Verify handoffVerify `cmd:"" example:"handoff verify passport.json" help:"Verify a passport, offline."`
	Offer  offerCommand  `cmd:"" example:"handoff offer --from did:key:z6Mk… --to did:key:z6Mk… --title \"Cite three sources on X\" --deadline 2h" help:"Offer a handoff, and print its ID."`

	Accept   stepCommand `cmd:"" help:"Accept an offer."`
	Decline  stepCommand `cmd:"" help:"Decline an offer."`
	Claim    stepCommand `cmd:"" help:"Claim an open offer."`
	Progress stepCommand `cmd:"" help:"Report progress."`
	Complete stepCommand `cmd:"" help:"Complete the work."`
	Fail     stepCommand `cmd:"" help:"Report that the work failed."`
	Cancel   stepCommand `cmd:"" help:"Cancel an offer."`

	Orphan orphanCommands `cmd:"" help:"Settle handoffs that their home has lost."`
}

func newHandoffCommands() handoffCommands {
	step := func(v federation.Verb) stepCommand { return stepCommand{verb: v} }
	return handoffCommands{
		Accept: step(federation.Accept), Decline: step(federation.Decline), Claim: step(federation.Claim),
		Progress: step(federation.Progress), Complete: step(federation.Complete), Fail: step(federation.Fail),
		Cancel: step(federation.Cancel),
	}
}

type handoffList struct {
	listFlags
	watchFlag

	DID        string `help:"Only handoffs with this party." name:"did" placeholder:"DID"`
	State      string `enum:",offered,open,assigned,completed,failed,declined,cancelled,expired" default:"" help:"Only handoffs in this state." placeholder:"STATE"`
	Kind       string `help:"Only handoffs of this kind, such as handoff." placeholder:"KIND"`
	Channel    string `help:"Only handoffs in this channel." placeholder:"#C"`
	Capability string `help:"Only handoffs that require this capability." placeholder:"CAP"`
	Since      string `help:"Only handoffs changed since this time: a time, or a duration before now." placeholder:"TIME"`
	Search     string `help:"An ID or at least its last six characters, a DID, or words of the title." placeholder:"TEXT"`
}

// Run prints the list.
func (cmd handoffList) Run(ctx context.Context, c *cli, streams std) error {
	since, err := parseSince(cmd.Since, time.Now())
	if err != nil {
		return err
	}
	query := admin.HandoffQuery{
		DID: cmd.DID, State: cmd.State, Kind: cmd.Kind, Channel: cmd.Channel, Capability: cmd.Capability, Since: since, Search: cmd.Search,
		Watching: cmd.of(cmd.page()),
	}
	return list(ctx, c, streams, admin.ListHandoffs, query, render.Handoffs)
}

func parseSince(since string, now time.Time) (string, error) {
	if since == "" {
		return "", nil
	}
	if back, err := time.ParseDuration(since); err == nil {
		return now.Add(-back).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, since); err != nil {
		return "", &usageError{fmt.Errorf("--since: want a time such as 2026-11-21T12:00:00Z or a duration such as 24h, not %q", since)}
	}
	return since, nil
}

type handoffShow struct {
	ID string `arg:"" help:"The ID, or at least its last six characters."`
}

// Run prints the handoff with all its steps.
func (cmd handoffShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	h, err := gateway.Handoff(ctx, cmd.ID)
	if err != nil {
		return err
	}
	return printDocument(c, streams, h, render.Handoff)
}

type handoffExport struct {
	ID     string `arg:"" help:"The ID, or at least its last six characters."`
	Output string `help:"Output file. Default: stdout." placeholder:"FILE" short:"o" type:"path"`
}

// Help describes passports, with an example.
func (handoffExport) Help() string {
	return `Writes the passport of a handoff, a file that proves the handoff to third parties without this gateway.

Example:

	baton handoff export Y6Z0AB -o passport.json`
}

// Run fetches the passport and writes it.
func (cmd handoffExport) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	passport, err := gateway.Passport(ctx, cmd.ID)
	if err != nil {
		return err
	}
	passport = append(passport, '\n')
	if cmd.Output == "" {
		_, err = streams.out.Write(passport)
		return err
	}
	return os.WriteFile(cmd.Output, passport, 0o600)
}

type explainCommand struct {
	Event string `arg:"" help:"The ID of an event, or at least the last six characters of an offer's ID; or did, followed by a DID."`
	DID   string `arg:"" optional:"" name:"did" help:"After did: the DID to explain."`
}

// Help describes the explanation, with an example.
func (explainCommand) Help() string {
	return `Prints the signed document, the key and its source, the verdict, the route, and the next event if no party
acts.

With "did" and a DID, it prints the source of the DID document, its keys, and its unusable keys with the
reasons. The document is fetched again, at most once every 30 seconds.

Example:

	baton explain 01K0A3V9M7Q2X5R8T1W4Y6Z0AB
	baton explain did did:web:alice.example`
}

// Run prints the explanation.
func (cmd explainCommand) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.Event == "did" {
		return show(ctx, c, streams, admin.ExplainDID, admin.ByDID{DID: cmd.DID}, render.DID)
	}
	if cmd.DID != "" {
		return &usageError{errors.New("want one event, or did and a DID")}
	}
	return show(ctx, c, streams, admin.ExplainEvent, admin.ByID{ID: cmd.Event}, func(out io.Writer, e admin.Explanation) error {
		return render.Explanation(out, e, time.Now())
	})
}

type orphanCommands struct {
	End orphanEnd `cmd:"" help:"End an orphaned handoff at this gateway, and notify its parties."`
}

type orphanEnd struct {
	changeFlags
	yesFlag

	ID string `arg:"" help:"The ID of the handoff, or at least its last six characters."`
}

// Help implements [kong.HelpProvider].
func (orphanEnd) Help() string {
	return `Ends a handoff of another home at this gateway. Use it if the home was restored from an older backup and cannot recover
the steps of the handoff, or if the home has been silent for a day: baton handoff show prints the reason. The parties here get
a notice with the reason. If the home returns, its later steps of this handoff are refused here.

Example:

	baton handoff orphan end Y6Z0AB --reason "b.example was restored from the backup of Monday"`
}

// Run ends the handoff, and prints its new state.
func (cmd orphanEnd) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.Reason == "" {
		return &usageError{errors.New("--reason is required, for the parties and the audit log")}
	}
	if err := cmd.ask(streams, cmd.DryRun, "End "+cmd.ID+" here?"); err != nil {
		return err
	}
	return report(ctx, c, streams, admin.EndOrphan, admin.ActOnID{ID: cmd.ID, Body: cmd.body()}, func(done admin.Handoff) string {
		if cmd.DryRun {
			return cmd.said(done.ID.String() + " ends: " + done.OrphanReason)
		}
		return done.ID.String() + " " + string(done.State)
	})
}
