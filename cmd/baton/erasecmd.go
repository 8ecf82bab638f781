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

type eraseCommand struct {
	changeFlags
	yesFlag

	DID string `arg:"" help:"The person or agent." name:"did"`
}

// Help describes the extent of the erasure.
func (eraseCommand) Help() string {
	return `Erases the content of all handoffs of the DID, under any of its DIDs and handles, and of all messages from it, to it or
about these handoffs: titles, notes, contexts, evidence, signed documents, text, pending deliveries, notices, stored API
responses, webhooks and MACP histories. The log of each handoff keeps verbs, DIDs, times and the digest of each document.
baton verify still verifies its chain, and a new passport lists the erased documents. At the end, the database is rewritten,
so that its file contains no deleted bytes; no step is filed meanwhile.

If the DID has an open handoff, the command lists it and exits with 3. A party can cancel or fail it, and
baton block add DID --purge ends the handoffs offered by the DID. To resume an interrupted erasure, run the command again.

The command does not erase names and keys of the DID, its registration, blocks and the audit log. It lists the other homes,
registries and IRC networks with copies: ask their operators. It also lists files that may still contain the text: delete
them, and backups elsewhere. On PostgreSQL, run VACUUM (FULL) on the tables; the server has its own logs and backups.
Rewriting the database needs a temporary file of the same size. SQLITE_TMPDIR sets its folder.

Example:

	baton erase did:plc:eliza --dry-run
	baton erase did:plc:eliza --reason "request of 21 November"`
}

// Run erases, and prints the erased items and the remaining work of the operator.
func (cmd eraseCommand) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.Reason == "" && !cmd.DryRun {
		return &usageError{errors.New("--reason is required for the audit log")}
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
