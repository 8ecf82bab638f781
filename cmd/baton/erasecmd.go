package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
)

// eraseCommand erases the content of a person's handoffs and messages.
type eraseCommand struct {
	changeFlags
	yesFlag

	DID string `arg:"" help:"The person or agent." name:"did"`
}

// Help describes the extent of the erasure.
func (eraseCommand) Help() string {
	return `Erases what the record has of each handoff that the DID took part in, under any of its DIDs and handles, and of
each message from it, to it or about such a handoff: titles, notes, contexts, evidence, signed documents, text, what
waits to be delivered, notices, kept answers, webhooks, MACP histories. The log of each handoff keeps verbs, DIDs, times
and the digest of each document: baton verify walks its chain as before, and a passport of it says which documents were
erased. Then the record is written anew, so that its file has no deleted bytes; no step is filed meanwhile.

Refuses with 3 while the DID has a handoff that is not over, and names it: a party cancels or fails it, and
baton block add DID --purge ends the handoffs that the DID offered. Run an interrupted erasure again to complete it.

Not erased: names and keys of the DID, its registration, blocks, the audit log. Copies at other homes, registries and
IRC networks are named; ask their operators. The files named may have the text still: delete them, and backups that you
made elsewhere. On PostgreSQL run VACUUM (FULL) on the tables, and mind the server's own log and backups. The record is
written anew by way of a temporary file of its size: SQLITE_TMPDIR names another folder than that of the system.

Example:

	baton erase did:plc:eliza --dry-run
	baton erase did:plc:eliza --reason "request of 21 November"`
}

// Run erases, and prints the erased items and those left to do.
func (cmd eraseCommand) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.Reason == "" && !cmd.DryRun {
		return &usageError{errors.New("--reason is needed: the audit log has it")}
	}
	if err := cmd.ask(streams, cmd.DryRun, "erase what "+cmd.DID+" took part in? It cannot be undone."); err != nil {
		return err
	}
	gateway, err := c.client()
	if err != nil {
		return err
	}
	done, err := client.Call(ctx, gateway, admin.Erase, route.JSON(admin.EraseAsk{Act: cmd.act(), DID: cmd.DID}))
	if err != nil {
		return err
	}
	return printDocument(c, streams, done, func(out io.Writer, done admin.Erased) error {
		_, err := fmt.Fprintln(out, cmd.said(strings.Join(render.Erased(done), "\n")))
		return err
	})
}
