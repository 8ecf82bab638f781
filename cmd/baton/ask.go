package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/configs"
)

func (c *cli) client() (*client.Client, error) {
	if c.Gateway != "" {
		token, err := c.token()
		if err != nil {
			return nil, err
		}
		gateway, err := client.Open(c.Gateway, token)
		if wrong, ok := errors.AsType[*client.AddressError](err); ok {
			return nil, &usageError{fmt.Errorf("--gateway: %w", wrong)}
		}
		return gateway, err
	}
	file, err := configs.Load(c.configPath())
	if err != nil {
		return nil, err
	}
	if file.Admin.Socket == "" {
		return nil, errors.New("the configuration has no admin.socket: name the gateway with --gateway")
	}
	return client.NewSocket(file.Path(file.Admin.Socket)), nil
}

// A socket needs no token.
func (c *cli) token() (string, error) {
	if c.TokenFile == "" || strings.HasPrefix(c.Gateway, "unix:") {
		return "", nil
	}
	token, err := configs.ReadSecret(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return token, nil
}

func (c *cli) terminal(streams std) render.Terminal {
	return render.Terminal{Out: streams.out, Err: streams.err, JSON: c.JSON, Command: append([]string{"baton"}, c.args...)}
}

func show[In, T any](ctx context.Context, c *cli, streams std, r route.Route[In, T], in In, write func(out io.Writer, document T) error) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	return render.Show(ctx, c.terminal(streams), gateway, r, in, write)
}

func printDocument[T any](c *cli, streams std, document T, write func(out io.Writer, document T) error) error {
	return render.Print(c.terminal(streams), document, write)
}

func printLine[T any](c *cli, streams std, document T, line string) error {
	return printDocument(c, streams, document, render.Line(func(T) string { return line }))
}

func report[In, T any](ctx context.Context, c *cli, streams std, r route.Route[In, T], in In, line func(document T) string) error {
	return show(ctx, c, streams, r, in, render.Line(line))
}

func list[In admin.List, T any](ctx context.Context, c *cli, streams std, r route.Route[In, admin.Page[T]], in In, t render.Table[T]) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	if _, watch := in.List(); watch {
		return render.Watch(ctx, c.terminal(streams), gateway, r, in, t)
	}
	return render.List(ctx, c.terminal(streams), gateway, r, in, t)
}

func printJSON(streams std, document any) error {
	return render.Terminal{Out: streams.out}.WriteJSON(document)
}

type listFlags struct {
	Limit  int    `default:"50" help:"Maximum number of results, up to 500." placeholder:"N"`
	Cursor string `help:"Continue a list from its cursor." placeholder:"C"`
}

func (f listFlags) page() admin.Paging { return admin.Paging{Limit: &f.Limit, Cursor: f.Cursor} }

type watchFlag struct {
	Watch bool `help:"Keep printing changes until interrupted."`
}

func (f watchFlag) of(page admin.Paging) admin.Watching {
	return admin.Watching{Paging: page, Watch: f.Watch}
}

type reasonFlag struct {
	Reason string `help:"Reason, for the audit log." placeholder:"TEXT"`
}

type changeFlags struct {
	reasonFlag

	DryRun bool `help:"Print the effect, and change nothing." name:"dry-run"`
}

func (f changeFlags) act() admin.Act {
	return admin.Act{Reason: f.Reason, DryRun: f.DryRun}
}

func (f changeFlags) body() route.Body[admin.Act] { return route.JSON(f.act()) }

func (f changeFlags) removal() admin.Removal {
	return admin.Removal{Reason: f.Reason, DryRun: f.DryRun}
}

func (f changeFlags) said(line string) string {
	if f.DryRun {
		return "dry run: " + line
	}
	return line
}

func change[In any](ctx context.Context, c *cli, streams std, f changeFlags, r route.Route[In, admin.Acted], in In, line func(changed int) string) error {
	return report(ctx, c, streams, r, in, func(done admin.Acted) string { return f.said(line(done.Changed)) })
}

func changeEach[In any](
	ctx context.Context, c *cli, streams std, f changeFlags, ids []string, r route.Route[In, admin.Acted], in func(id string) In, did string,
) error {
	for _, id := range ids {
		err := change(ctx, c, streams, f, r, in(id), func(n int) string { return fmt.Sprintf("%s: %d %s", id, n, did) })
		if err != nil {
			return err
		}
	}
	return nil
}

type yesFlag struct {
	Yes bool `help:"Do not ask for confirmation."`
}

// ask asks for confirmation on the terminal, unless --yes is set or nothing is destroyed.
func (f yesFlag) ask(streams std, dry bool, question string) error {
	if f.Yes || dry || (render.Terminal{Err: streams.err}).Confirm(os.Stdin, question) {
		return nil
	}
	return &usageError{errors.New("nothing was done: confirm with --yes")}
}
