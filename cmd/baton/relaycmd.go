package main

import (
	"context"
	"errors"
	"io"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/federation/relay"
)

type relayCommands struct {
	Check    relayCheck    `cmd:"" example:"relay check" help:"Check the hub: clock, account, limits, synchronization, and lagging homes."`
	Accounts relayAccounts `cmd:"" example:"relay accounts a.example b.example c.example --out hub" help:"Write the configuration of a hub, and an nkey seed for each home."`
}

type relayCheck struct{}

// Run prints one line per check. It fails if one does.
func (relayCheck) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	page, err := client.Call(ctx, gateway, admin.CheckRelay, admin.Paging{})
	if err != nil {
		return err
	}
	err = printDocument(c, streams, page, func(out io.Writer, page admin.Page[admin.Check]) error { return render.Checks(out, page.Items) })
	if err != nil {
		return err
	}
	return failedCheck(page.Items)
}

type relayAccounts struct {
	Names    []string `arg:"" name:"name" help:"The homes, by home.name."`
	Out      string   `default:"." help:"Folder for the files; existing seeds are kept." placeholder:"DIR"`
	Replicas int      `default:"1" help:"Number of servers with a copy of each stream." placeholder:"N"`
	Cluster  []string `help:"A server of a clustered hub and its address for homes; repeat it for each server. The servers connect to each other on the port 2000 above." placeholder:"NAME=HOST[:PORT]" sep:"none"`
}

// Run writes the configurations and a seed for each home, and prints their names.
func (cmd relayAccounts) Run(c *cli, streams std) error {
	layout := relay.HubLayout{Replicas: cmd.Replicas}
	for _, each := range cmd.Cluster {
		server, err := relay.ParseHubServer(each)
		if err != nil {
			return &usageError{err}
		}
		layout.Servers = append(layout.Servers, server)
	}
	files, err := relay.SaveAccounts(cmd.Out, cmd.Names, layout)
	if wrong, ok := errors.AsType[*relay.NamesError](err); ok {
		return &usageError{wrong}
	}
	if err != nil {
		return err
	}
	return printLine(c, streams, files, files.Instructions(layout))
}
