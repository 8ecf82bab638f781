package main

import (
	"context"
	"fmt"
	"net/http"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// inboxCommands look at what reached a DID.
type inboxCommands struct {
	Show inboxShow `cmd:"" help:"Show what reached a DID. Looking changes nothing."`
	Ack  inboxAck  `cmd:"" help:"Note that a DID has read its inbox up to a cursor, for a device that is gone."`
	Move inboxMove `cmd:"" help:"Give a DID and what waits for it to another home."`
}

// inboxShow shows an inbox.
type inboxShow struct {
	DID    string `arg:"" help:"Whose inbox." name:"did"`
	Limit  int    `default:"50" help:"How many, at most 500." placeholder:"N"`
	After  string `help:"What came after this cursor." placeholder:"CURSOR"`
	Device string `help:"What this device has not read yet." placeholder:"NAME"`
	watchFlag
}

// Help has one example.
func (inboxShow) Help() string { return "Example:\n\n\tbaton inbox show did:key:z6Mk… --watch" }

// Run prints the inbox.
func (cmd inboxShow) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListInbox(ctx, cmd.DID, &contract.ListInboxParams{Limit: &cmd.Limit, Cursor: cmd.After, Watch: cmd.parameter(), Device: cmd.Device})
	}, cmd.Watch, table[operatorapi.Arrived]{
		header: "FILED | HANDOFF | VERB | FROM | NAME | STATE | CURSOR",
		row: func(a operatorapi.Arrived) []string {
			return []string{
				a.Filed.String(), a.HandoffID.String(), string(a.Verb), a.From.Short(), a.Name, string(a.State), string(a.Cursor),
			}
		},
	}, cmd.DID)
}

// inboxAck acknowledges.
type inboxAck struct {
	reasonFlag

	DID    string `arg:"" help:"Whose inbox." name:"did"`
	Cursor string `arg:"" help:"Up to here, as inbox show prints it."`
	Device string `help:"That has read it; without one, what waits for all of them ends." placeholder:"NAME"`
}

// Help has one example.
func (inboxAck) Help() string {
	return "Example:\n\n\tbaton inbox ack did:key:z6Mk… AAECAwQFBgcAAAAAAAAAAQ --reason \"the laptop was stolen\""
}

// Run acknowledges, and says up to where.
func (cmd inboxAck) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.DID)
	if err != nil {
		return err
	}
	ack := operatorapi.Ack{Cursor: federation.Cursor(cmd.Cursor), Device: cmd.Device, Reason: cmd.Reason}
	done, err := answered[operatorapi.Ack](gateway.AckInbox(ctx, cmd.DID, ack))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	_, err = fmt.Fprintf(streams.out, "%s has read up to %s\n", cmd.DID, done.Cursor)
	return err
}

// inboxMove moves a mailbox.
type inboxMove struct {
	changeFlags

	DID  string `arg:"" help:"Whose mailbox." name:"did"`
	Home string `arg:"" help:"The name of the home, which has to be a peer."`
}

// Help has one example.
func (inboxMove) Help() string {
	return `What waits in the inbox goes along, and for thirty days this home sends on what others still send here. Where it
breaks off, the same command goes on.

Example:

	baton inbox move did:key:z6Mk… b.example --reason "she changed networks"`
}

// Run moves it, and says how much went along.
func (cmd inboxMove) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.DID)
	if err != nil {
		return err
	}
	done, err := answered[operatorapi.Moved](gateway.MoveInbox(ctx, cmd.DID, operatorapi.Move{Act: cmd.act(), Home: cmd.Home}))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(fmt.Sprintf("%s is at %s: %d went along, %d wait here", done.DID, done.Home, done.Taken, done.Waiting)))
	return err
}
