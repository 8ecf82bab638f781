package main

import (
	"context"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
)

type blockCommands struct {
	Add    blockAdd    `cmd:"" example:"block add did:key:z6Mk… --for 24h --purge --reason floods" help:"Block a source."`
	Remove blockRemove `cmd:"" example:"block remove 192.0.2.0/24" help:"Remove a block."`
	List   blockList   `cmd:"" example:"block list --json" help:"List blocks."`
}

type blockAdd struct {
	changeFlags
	yesFlag

	What  string        `arg:"" help:"A DID, an IP network, a handle, NICK!USER@LINK, or host:NAME for the did:webs of a host."`
	For   time.Duration `help:"Duration of the block. Default: until it is removed." placeholder:"DURATION"`
	Purge bool          `help:"Also end the handoffs offered by the source, and drop its pending deliveries."`
}

// Run blocks, and prints the ended and dropped items.
func (cmd blockAdd) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.Purge {
		if err := cmd.ask(streams, cmd.DryRun, "end what "+cmd.What+" offered, and drop its pending deliveries?"); err != nil {
			return err
		}
	}
	ask := admin.BlockAsk{Act: cmd.act(), What: cmd.What, Purge: cmd.Purge}
	if cmd.For != 0 {
		ask.For = cmd.For.String()
	}
	return report(ctx, c, streams, admin.AddBlock, route.JSON(ask), func(done admin.Blocked) string {
		return cmd.said(render.Blocked(done))
	})
}

type blockRemove struct {
	changeFlags

	What string `arg:"" help:"Block, as listed by block list."`
}

// Run ends the block.
func (cmd blockRemove) Run(ctx context.Context, c *cli, streams std) error {
	return change(ctx, c, streams, cmd.changeFlags, admin.Unblock, admin.Unblocking{What: cmd.What, Removal: cmd.removal()}, func(int) string {
		return cmd.What + " is not blocked any more"
	})
}

type blockList struct{ listFlags }

// Run prints the list.
func (cmd blockList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListBlocks, cmd.page(), render.Blocks)
}

type topCommand struct {
	watchFlag

	By    string        `default:"did" enum:"did,address,link" help:"Count by did, address or link." placeholder:"WHAT"`
	Since time.Duration `default:"10m" help:"Period to count, up to 1h." placeholder:"DURATION"`
	Limit int           `default:"50" help:"Maximum number of results, up to 500." placeholder:"N"`
}

// Run prints the list.
func (cmd topCommand) Run(ctx context.Context, c *cli, streams std) error {
	page := admin.Paging{Limit: &cmd.Limit}
	return list(ctx, c, streams, admin.ListTop, admin.TopQuery{By: cmd.By, Since: cmd.Since.String(), Watching: cmd.of(page)}, render.Senders)
}
