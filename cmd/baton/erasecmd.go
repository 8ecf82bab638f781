package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"baton/bridge/operatorapi/client"
	"baton/bridge/operatorapi/contract"
)

// eraseCommand erases the content of what a person took part in.
type eraseCommand struct {
	changeFlags
	yesFlag

	DID string `arg:"" help:"The person or agent." name:"did"`
}

// Help says what is erased and what is not.
func (eraseCommand) Help() string {
	return `Erases what the record has of each handoff that the DID took part in, under any of its DIDs and handles, and of
each message from it, to it or about such a handoff: titles, notes, contexts, evidence, signed documents, text, what
waits to be delivered, notices, kept answers, webhooks, MACP histories. The log of each handoff keeps verbs, DIDs, times
and the digest of each document: baton verify walks its chain as before, and a passport of it says which documents were
erased. Then the record is written anew, so that its file has no deleted bytes; no step is filed meanwhile.

Refuses with 3 while the DID has a handoff that is not over, and names it: a party cancels or fails it, and
baton block add DID --purge ends what the DID offered. An erasure that was cut short goes on when it is run again.

Not erased: names and keys of the DID, its registration, blocks, the audit log. Copies at other homes, registries and
IRC networks are named; ask their operators. The files named may have the text still: delete them, and backups that you
made elsewhere. On PostgreSQL run VACUUM (FULL) on the tables, and mind the server's own log and backups. The record is
written anew by way of a temporary file of its size: SQLITE_TMPDIR names another folder than that of the system.

Example:

	baton erase did:plc:eliza --dry-run
	baton erase did:plc:eliza --reason "request of 21 November"`
}

// Run erases, and prints what was erased and what is left to do.
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
	done, err := client.Read[contract.Erased](gateway.EraseWhole(ctx, contract.EraseAsk{Act: cmd.act(), DID: cmd.DID}))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	return cmd.print(streams.out, done)
}

func (cmd eraseCommand) print(out io.Writer, done contract.Erased) error {
	line := fmt.Sprintf("%s: erased %d handoffs with %d documents, %d messages, %d originals, %d contexts; dropped %d that waited, %d notices, answers and webhooks, %d histories",
		done.DID, done.Handoffs, done.Documents, done.Messages, done.Evidence, done.Contexts, done.Waiting, done.Other, done.Journals)
	lines := []string{cmd.said(line)}
	for _, id := range done.Open {
		lines = append(lines, "not over, end it first: "+id.String())
	}
	for _, name := range done.Running {
		lines = append(lines, "goes on, erase again after its end: "+name)
	}
	if len(done.Copies) > 0 {
		lines = append(lines, "copies went to: "+strings.Join(done.Copies, ", "))
	}
	for _, file := range done.Files {
		lines = append(lines, "may have the text still, delete it: "+file)
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}
