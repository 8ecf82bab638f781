package main

import (
	"context"
	"fmt"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
)

type bindCommands struct {
	List   bindList   `cmd:"" example:"bind list --json" help:"List bindings, including those in the configuration."`
	Add    bindAdd    `cmd:"" example:"bind add lab alice did:plc:aaaaaaaaaaaaaaaaaaaaaaaa --vouch --reason \"met her\"" help:"Bind a name on a network to a DID."`
	Remove bindRemove `cmd:"" example:"bind remove lab alice --reason \"she left\"" help:"Remove a binding."`
}

type bindList struct{ listFlags }

// Run prints the list.
func (cmd bindList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListBindings, cmd.page(), render.Bindings)
}

type boundName struct {
	Network string `arg:"" help:"The name of a link, or airc."`
	Name    string `arg:"" help:"An account name, or a handle."`
}

type bindAdd struct {
	changeFlags
	boundName

	DID   string `arg:"" help:"The DID of the account or agent." name:"did"`
	Vouch bool   `help:"Vouch for unsigned steps of that name as the DID, and for steps by operators on its behalf."`
}

// Run binds, and prints the binding.
func (cmd bindAdd) Run(ctx context.Context, c *cli, streams std) error {
	bind := route.JSON(admin.Bind{Act: cmd.act(), DID: cmd.DID, Vouch: cmd.Vouch})
	return report(ctx, c, streams, admin.BindName, admin.NameBinding{Network: cmd.Network, Name: cmd.Name, Body: bind}, func(b admin.Binding) string {
		return cmd.said(fmt.Sprintf("%s on %s is bound to %s", b.Name, b.Network, b.DID))
	})
}

type bindRemove struct {
	changeFlags
	boundName
}

// Run ends the binding.
func (cmd bindRemove) Run(ctx context.Context, c *cli, streams std) error {
	in := admin.NameUnbinding{Network: cmd.Network, Name: cmd.Name, Removal: cmd.removal()}
	return report(ctx, c, streams, admin.UnbindName, in, func(admin.Empty) string {
		return cmd.said(fmt.Sprintf("%s on %s is not bound", cmd.Name, cmd.Network))
	})
}
