package main

import (
	"context"
	"fmt"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

type inboxCommands struct {
	Show inboxShow `cmd:"" example:"inbox show did:key:z6Mk… --watch" help:"Show the inbox of a DID, without changing it."`
	Ack  inboxAck  `cmd:"" example:"inbox ack did:key:z6Mk… AAECAwQFBgcAAAAAAAAAAQ --reason \"the laptop was stolen\"" help:"Mark an inbox as read up to a cursor, for a lost device."`
	Move inboxMove `cmd:"" help:"Move a DID and its inbox to another home."`
}

type inboxShow struct {
	DID    string `arg:"" help:"Owner of the inbox." name:"did"`
	Limit  int    `default:"50" help:"Maximum number of results, up to 500." placeholder:"N"`
	After  string `help:"Only entries after this cursor." placeholder:"CURSOR"`
	Device string `help:"Only entries not read by this device." placeholder:"NAME"`
	watchFlag
}

// Run prints the inbox.
func (cmd inboxShow) Run(ctx context.Context, c *cli, streams std) error {
	page := admin.Paging{Limit: &cmd.Limit, Cursor: cmd.After}
	return list(ctx, c, streams, admin.ListInbox, admin.InboxQuery{DID: cmd.DID, Device: cmd.Device, Watching: cmd.of(page)}, render.Arrivals)
}

type inboxAck struct {
	reasonFlag

	DID    string `arg:"" help:"Owner of the inbox." name:"did"`
	Cursor string `arg:"" help:"Last cursor to mark as read, as printed by inbox show."`
	Device string `help:"The device. Default: all devices." placeholder:"NAME"`
}

// Run acknowledges, and prints the new position.
func (cmd inboxAck) Run(ctx context.Context, c *cli, streams std) error {
	ack := admin.Ack{Cursor: federation.Cursor(cmd.Cursor), Device: cmd.Device, Reason: cmd.Reason}
	return report(ctx, c, streams, admin.AckInbox, admin.InboxAck{DID: cmd.DID, Body: route.JSON(ack)}, func(done admin.Ack) string {
		return fmt.Sprintf("%s has read up to %s", cmd.DID, done.Cursor)
	})
}

type inboxMove struct {
	changeFlags

	DID  string `arg:"" help:"Owner of the mailbox." name:"did"`
	Home string `arg:"" help:"Name of the new home, which must be a peer."`
}

// Help describes the consequences, with an example.
func (inboxMove) Help() string {
	return `Pending entries of the inbox are moved too, and this home forwards later arrivals for thirty days. To resume an
interrupted move, run the command again.

Example:

	baton inbox move did:key:z6Mk… b.example --reason "she changed networks"`
}

// Run moves the mailbox, and prints the number of moved entries.
func (cmd inboxMove) Run(ctx context.Context, c *cli, streams std) error {
	move := route.JSON(admin.Move{Act: cmd.act(), Home: cmd.Home})
	return report(ctx, c, streams, admin.MoveInbox, admin.InboxMove{DID: cmd.DID, Body: move}, func(done admin.Moved) string {
		return cmd.said(fmt.Sprintf("%s is at %s: %d entries moved, %d are pending here", done.DID, done.Home, done.Taken, done.Waiting))
	})
}
