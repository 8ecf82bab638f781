package main

import (
	"context"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
)

type statusCommand struct{}

// Run prints the overview.
func (statusCommand) Run(ctx context.Context, c *cli, streams std) error {
	return show(ctx, c, streams, admin.GetStatus, route.None{}, render.Status)
}

type sessionCommands struct {
	List sessionList `cmd:"" example:"session list --did did:key:z6Mk…" help:"List the sessions of agents and their hosts."`
	End  sessionEnd  `cmd:"" help:"End one session, with its tokens, streams and leases."`
}

type sessionList struct {
	listFlags

	DID string `help:"Only sessions of this participant." name:"did" placeholder:"DID"`
}

// Run prints the list.
func (cmd sessionList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListSessions, admin.SessionQuery{DID: cmd.DID, Paging: cmd.page()}, render.Sessions)
}

type sessionEnd struct {
	changeFlags

	ID string `arg:"" help:"ID, as listed by session list."`
}

// Help describes the consequences, with an example.
func (sessionEnd) Help() string {
	return "The client must log in again. To end all sessions of a participant, run baton token revoke --did DID.\n\nExample:\n\n\tbaton session end 7GQ2ZK --reason \"a lost laptop\""
}

// Run ends the session.
func (cmd sessionEnd) Run(ctx context.Context, c *cli, streams std) error {
	return change(ctx, c, streams, cmd.changeFlags, admin.EndSessions, admin.SessionsEnd{DID: cmd.ID, Body: cmd.body()}, func(int) string {
		return "session " + cmd.ID + " has ended"
	})
}
