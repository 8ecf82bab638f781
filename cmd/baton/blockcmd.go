package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// blockCommands keep the sources that nothing is taken from.
type blockCommands struct {
	Add    blockAdd    `cmd:"" help:"Refuse everything from a source."`
	Remove blockRemove `cmd:"" help:"End a block."`
	List   blockList   `cmd:"" help:"List blocks."`
}

// blockAdd blocks a source.
type blockAdd struct {
	changeFlags
	yesFlag

	What  string        `arg:"" help:"A DID, an IP network, a handle, NICK!USER@LINK, or host:NAME for the did:webs of a host."`
	For   time.Duration `help:"How long; else until it is removed." placeholder:"DURATION"`
	Purge bool          `help:"Also end the handoffs that it offered, and drop everything from it that waits."`
}

// Help has one example.
func (blockAdd) Help() string {
	return "Example:\n\n\tbaton block add did:key:z6Mk… --for 24h --purge --reason floods"
}

// Run blocks, and prints what was ended and dropped.
func (cmd blockAdd) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.Purge {
		if err := cmd.ask(streams, cmd.DryRun, "end what "+cmd.What+" offered, and drop what waits of it?"); err != nil {
			return err
		}
	}
	gateway, err := c.client()
	if err != nil {
		return err
	}
	ask := operatorapi.BlockAsk{Act: cmd.act(), What: cmd.What, Purge: cmd.Purge}
	if cmd.For != 0 {
		ask.For = cmd.For.String()
	}
	done, err := answered[operatorapi.Blocked](gateway.Block(ctx, ask))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	line := done.What + " is blocked"
	if !done.Expires.IsZero() {
		line += " until " + done.Expires.String()
	}
	if p := done.Purged; p != nil {
		line += fmt.Sprintf("; ended %d handoffs; dropped %d inbox entries, %d messages, %d deferred steps, %d deliveries, %d dead letters",
			p.Handoffs, p.Inbox, p.Messages, p.Deferred, p.Outbox, p.Dead)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(line))
	return err
}

// blockRemove ends a block.
type blockRemove struct {
	changeFlags

	What string `arg:"" help:"As in block list."`
}

// Help has one example.
func (blockRemove) Help() string { return "Example:\n\n\tbaton block remove 192.0.2.0/24" }

// Run ends the block.
func (cmd blockRemove) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.What)
	if err != nil {
		return err
	}
	done, err := answered[operatorapi.Acted](gateway.Unblock(ctx, cmd.What, &contract.UnblockParams{Reason: cmd.Reason, DryRun: cmd.dry()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(cmd.What+" is not blocked any more"))
	return err
}

// blockList lists blocks.
type blockList struct{ listFlags }

// Help has one example.
func (blockList) Help() string { return "Example:\n\n\tbaton block list --json" }

// Run prints the list.
func (cmd blockList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListBlocks(ctx, &contract.ListBlocksParams{Limit: &cmd.Limit, Cursor: cmd.Cursor})
	}, false, table[operatorapi.Block]{
		header: "WHAT | KIND | SINCE | UNTIL | REASON",
		row: func(b operatorapi.Block) []string {
			return []string{b.What, string(b.Kind), b.Since.String(), b.Expires.String(), b.Reason}
		},
	})
}
