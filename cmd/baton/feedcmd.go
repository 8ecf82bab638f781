package main

import (
	"context"
	"errors"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
)

type feedCommands struct {
	List    feedList    `cmd:"" example:"feed list --link lab --older 1h" help:"List the pending deliveries to links, other homes, registries, webhooks and readers of notices."`
	Shape   feedShape   `cmd:"" example:"feed shape" help:"Count pending deliveries by destination and age."`
	Hold    feedHold    `cmd:"" example:"feed hold lab --reason \"netsplit\"" help:"Pause deliveries to a destination, without disconnecting it."`
	Release feedRelease `cmd:"" example:"feed release lab" help:"Resume deliveries to a destination."`
	Retry   feedRetry   `cmd:"" example:"feed retry --link lab" help:"Retry some deliveries, or all deliveries to a destination, now."`
	Fail    feedFail    `cmd:"" help:"Fail a delivery, and notify its sender."`
	Drop    feedDrop    `cmd:"" help:"Drop a delivery without a notice; only the audit log records it."`
}

type feedList struct {
	listFlags
	watchFlag

	Link    string        `help:"Only deliveries to this link, webhook/ID, or notices/LINK." placeholder:"NAME"`
	Peer    string        `help:"Only deliveries to this home or registry." placeholder:"NAME"`
	Handoff string        `help:"Only deliveries of this handoff." placeholder:"ID"`
	Older   time.Duration `help:"Only deliveries that have waited longer than this." placeholder:"1h"`
}

// Run prints the list.
func (cmd feedList) Run(ctx context.Context, c *cli, streams std) error {
	query := admin.FeedQuery{Link: cmd.Link, Peer: cmd.Peer, Handoff: cmd.Handoff, Watching: cmd.of(cmd.page())}
	if cmd.Older > 0 {
		query.Older = cmd.Older.String()
	}
	return list(ctx, c, streams, admin.ListFeeds, query, render.Deliveries)
}

type feedShape struct{}

// Run prints a line for each destination.
func (feedShape) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListFeedShapes, admin.Paging{}, render.Shapes)
}

type feedSwitch struct {
	changeFlags

	Name string `arg:"" help:"The name of a link, the domain of another registry, webhook/ID, or notices/LINK."`
}

func (f feedSwitch) run(ctx context.Context, c *cli, streams std, verb, line string) error {
	return change(ctx, c, streams, f.changeFlags, admin.ChangeFeed, admin.FeedChange{ID: f.Name, Verb: verb, Body: f.body()}, func(int) string {
		return line
	})
}

type feedHold struct{ feedSwitch }

// Run holds the destination.
func (cmd feedHold) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "hold", "nothing is delivered to "+cmd.Name+" until it is released")
}

type feedRelease struct{ feedSwitch }

// Run ends the hold.
func (cmd feedRelease) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "release", cmd.Name+" receives deliveries again")
}

type feedIDs struct {
	changeFlags

	IDs  []string `arg:"" optional:"" help:"IDs of events or messages, as listed by feed list." name:"id"`
	Link string   `help:"Only deliveries to this link, webhook/ID or notices/LINK. Without IDs: all of them." placeholder:"NAME"`
	Peer string   `help:"Only deliveries to this home or registry. Without IDs: all of them." placeholder:"NAME"`
	// Older selects among all deliveries.
	Older time.Duration `help:"Without IDs: only deliveries that have waited longer than this." placeholder:"1h"`
}

func (f feedIDs) run(ctx context.Context, c *cli, streams std, verb, did string) error {
	if len(f.IDs) == 0 && f.Link == "" && f.Peer == "" && f.Older == 0 {
		return &usageError{errors.New("name deliveries, or select some with --link, --peer or --older")}
	}
	older := ""
	if f.Older > 0 {
		older = f.Older.String()
	}
	if len(f.IDs) == 0 {
		f.IDs = []string{"all"}
	}
	return changeEach(ctx, c, streams, f.changeFlags, f.IDs, admin.ChangeFeed, func(id string) admin.FeedChange {
		return admin.FeedChange{ID: id, Verb: verb, Link: f.Link, Peer: f.Peer, Older: older, Body: f.body()}
	}, did)
}

type feedRetry struct{ feedIDs }

// Run requests the retry.
func (cmd feedRetry) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "retry", "tried now")
}

type feedFail struct{ feedIDs }

// Help describes the consequences, with an example.
func (feedFail) Help() string {
	return "The delivery becomes a dead letter, and its sender gets a notice.\n\nExample:\n\n\tbaton feed fail 01K0A3V9M7Q2X5R8T1W4Y6Z0AB --reason \"the channel is gone\""
}

// Run abandons the deliveries.
func (cmd feedFail) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "fail", "given up")
}

type feedDrop struct {
	feedIDs
	yesFlag
}

// Help describes the consequences, with an example.
func (feedDrop) Help() string {
	return "There is no notice to the sender and no dead letter. This cannot be undone.\n\nExample:\n\n\tbaton feed drop 01K0A3V9M7Q2X5R8T1W4Y6Z0AB --yes"
}

// Run abandons the deliveries.
func (cmd feedDrop) Run(ctx context.Context, c *cli, streams std) error {
	if err := cmd.ask(streams, cmd.DryRun, "permanently drop these deliveries?"); err != nil {
		return err
	}
	return cmd.run(ctx, c, streams, "drop", "dropped")
}
