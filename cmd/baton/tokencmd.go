package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

type tokenCommands struct {
	Create tokenCreate `cmd:"" example:"token create --scope operate --name ann@laptop > ann.token" help:"Create a token. It is shown only once."`
	Pair   tokenPair   `cmd:"" example:"token pair --did did:key:z6Mk…" help:"Create and print a pairing code, which logs in an agent host as a participant."`
	List   tokenList   `cmd:"" example:"token list" help:"List tokens, without their secrets."`
	Revoke tokenRevoke `cmd:"" example:"token revoke ann@laptop --reason \"lost it\"" help:"Revoke a token at once, or end all sessions of a participant and delete its password with --did."`
}

type tokenCreate struct {
	reasonFlag

	Scope string        `enum:"read,operate,admin" default:"read" help:"read; operate, which adds changes of deliveries and links; or admin, which adds keys, tokens, peers and bindings." placeholder:"SCOPE"`
	TTL   time.Duration `default:"720h" help:"Lifetime of the token, up to a year." name:"ttl" placeholder:"DURATION"`
	Name  string        `help:"Name of the token in the audit log. Default: the scope and some digits." placeholder:"TEXT"`
}

// Run prints only the token on standard output.
func (cmd tokenCreate) Run(ctx context.Context, c *cli, streams std) error {
	ask := admin.TokenAsk{Name: cmd.Name, Scope: federation.Scope(cmd.Scope), TTL: cmd.TTL.String(), Reason: cmd.Reason}
	return show(ctx, c, streams, admin.CreateToken, route.JSON(ask), func(out io.Writer, made admin.NewToken) error {
		fmt.Fprintf(streams.err, "token %s, scope %s, good until %s; it is not shown again\n", made.Name, made.Scope, made.Expires)
		_, err := fmt.Fprintln(out, made.Text)
		return err
	})
}

type tokenPair struct {
	reasonFlag

	DID string `help:"The DID that the host will act as." name:"did" placeholder:"DID" required:""`
}

// Run prints only the code on standard output.
func (cmd tokenPair) Run(ctx context.Context, c *cli, streams std) error {
	ask := admin.PairAsk{DID: cmd.DID, Reason: cmd.Reason}
	return show(ctx, c, streams, admin.CreatePairingCode, route.JSON(ask), func(out io.Writer, made admin.PairingCode) error {
		fmt.Fprintf(streams.err, "pairing code of %s, valid once until %s\n", made.DID, made.ExpiresAt)
		_, err := fmt.Fprintln(out, made.Code)
		return err
	})
}

type tokenList struct{ listFlags }

// Run prints the list.
func (cmd tokenList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListTokens, cmd.page(), render.Tokens)
}

type tokenRevoke struct {
	changeFlags

	DID  string `help:"End all sessions of the participant with this DID, with their tokens, streams and leases, and delete its password." name:"did" placeholder:"DID" xor:"what"`
	Name string `arg:"" optional:"" help:"Token, as listed by token list." xor:"what"`
}

// Validate implements [kong.Validatable].
func (cmd tokenRevoke) Validate() error {
	if cmd.Name == "" && cmd.DID == "" {
		return errors.New("want the name of a token, or --did")
	}
	return nil
}

// Run ends the token or the sessions.
func (cmd tokenRevoke) Run(ctx context.Context, c *cli, streams std) error {
	if cmd.DID != "" {
		return change(ctx, c, streams, cmd.changeFlags, admin.EndSessions, admin.SessionsEnd{DID: cmd.DID, Body: cmd.body()}, func(n int) string {
			return fmt.Sprintf("%d sessions of %s have ended, and it has no password", n, cmd.DID)
		})
	}
	return change(ctx, c, streams, cmd.changeFlags, admin.RevokeToken, admin.ActOnName{Name: cmd.Name, Body: cmd.body()}, func(int) string {
		return "token " + cmd.Name + " is revoked"
	})
}
