package main

import (
	"context"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
)

type aircCommands struct {
	Held    aircHeld    `cmd:"" example:"airc held" help:"List unsigned messages from other registries that wait for consent, oldest first."`
	Allow   aircAllow   `cmd:"" example:"airc allow 17 --reason \"I know her\"" help:"Deliver held messages. Later messages of the same sender are held again."`
	Drop    aircDrop    `cmd:"" example:"airc drop 17 --yes" help:"Delete held messages."`
	Release aircRelease `cmd:"" example:"airc release scout_7 --reason \"lost its key\"" help:"Release a handle: its keys, sessions and webhooks end, and it may be registered again."`
}

type aircRelease struct {
	changeFlags

	Handle string `arg:"" help:"The handle. Its next owner inherits the inbox and the consent."`
}

// Run releases the handle.
func (cmd aircRelease) Run(ctx context.Context, c *cli, streams std) error {
	return change(ctx, c, streams, cmd.changeFlags, admin.ReleaseHandle, admin.ActOnHandle{Handle: cmd.Handle, Body: cmd.body()}, func(changed int) string {
		if changed == 0 {
			return cmd.Handle + " was released before"
		}
		return cmd.Handle + " is released: its keys, sessions and webhooks have ended, and it may be registered again"
	})
}

type aircHeld struct {
	listFlags
	watchFlag

	To string `help:"Only messages to this handle." placeholder:"HANDLE"`
}

// Run prints the list.
func (cmd aircHeld) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListHeld, admin.HeldQuery{To: cmd.To, Watching: cmd.of(cmd.page())}, render.HeldRelays)
}

type heldIDs struct {
	changeFlags

	IDs []string `arg:"" help:"ID, as listed by airc held." name:"id"`
}

func (h heldIDs) run(ctx context.Context, c *cli, streams std, verb, did string) error {
	return changeEach(ctx, c, streams, h.changeFlags, h.IDs, admin.SettleHeld, func(id string) admin.IDChange {
		return admin.IDChange{ID: id, Verb: verb, Body: h.body()}
	}, did)
}

type aircAllow struct{ heldIDs }

// Run delivers the held messages.
func (cmd aircAllow) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "allow", "delivered")
}

type aircDrop struct {
	heldIDs
	yesFlag
}

// Run deletes the held messages.
func (cmd aircDrop) Run(ctx context.Context, c *cli, streams std) error {
	if err := cmd.ask(streams, cmd.DryRun, "permanently delete these messages?"); err != nil {
		return err
	}
	return cmd.run(ctx, c, streams, "drop", "dropped")
}
