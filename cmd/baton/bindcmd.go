package main

import (
	"context"
	"fmt"
	"net/http"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// bindCommands keep names that stand for DIDs.
type bindCommands struct {
	List   bindList   `cmd:"" help:"List bindings, of the configuration too."`
	Add    bindAdd    `cmd:"" help:"Bind a name on a network to a DID."`
	Remove bindRemove `cmd:"" help:"End a binding."`
}

// bindList lists bindings.
type bindList struct{ listFlags }

// Help has one example.
func (bindList) Help() string { return "Example:\n\n\tbaton bind list --json" }

// Run prints the list.
func (cmd bindList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListBindings(ctx, &contract.ListBindingsParams{Limit: &cmd.Limit, Cursor: cmd.Cursor})
	}, false, table[operatorapi.Binding]{
		header: "NETWORK | NAME | DID | VOUCH | ORIGIN | SINCE",
		row: func(b operatorapi.Binding) []string {
			vouch := "no"
			if b.Vouch {
				vouch = "yes"
			}
			return []string{b.Network, b.Name, string(b.DID), vouch, b.Origin, b.Since.String()}
		},
	})
}

// bindAdd binds a name.
type bindAdd struct {
	changeFlags

	Network string `arg:"" help:"The name of a link, or airc."`
	Name    string `arg:"" help:"An account name, or a handle."`
	DID     string `arg:"" help:"Whom it stands for." name:"did"`
	Vouch   bool   `help:"The gateway vouches for unsigned steps of that name as the DID, and for those that operators take for it."`
}

// Help has one example.
func (bindAdd) Help() string {
	return "Example:\n\n\tbaton bind add lab alice did:plc:aaaaaaaaaaaaaaaaaaaaaaaa --vouch --reason \"met her\""
}

// Run binds, and prints the binding.
func (cmd bindAdd) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Network, cmd.Name)
	if err != nil {
		return err
	}
	bind := operatorapi.Bind{Act: cmd.act(), DID: cmd.DID, Vouch: cmd.Vouch}
	b, err := answered[operatorapi.Binding](gateway.BindName(ctx, cmd.Network, cmd.Name, bind))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, b)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(fmt.Sprintf("%s on %s stands for %s", b.Name, b.Network, b.DID)))
	return err
}

// bindRemove ends a binding.
type bindRemove struct {
	changeFlags

	Network string `arg:"" help:"The name of a link, or airc."`
	Name    string `arg:"" help:"An account name, or a handle."`
}

// Help has one example.
func (bindRemove) Help() string {
	return "Example:\n\n\tbaton bind remove lab alice --reason \"she left\""
}

// Run ends the binding.
func (cmd bindRemove) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Network, cmd.Name)
	if err != nil {
		return err
	}
	done, err := answered[struct{}](gateway.UnbindName(ctx, cmd.Network, cmd.Name, &contract.UnbindNameParams{Reason: cmd.Reason, DryRun: cmd.dry()}))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(fmt.Sprintf("%s on %s stands for nobody", cmd.Name, cmd.Network)))
	return err
}
