package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"baton/bridge/operatorapi/client"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/terminal"
	"baton/bridge/operatorapi/text"
	"baton/configs"
)

// client returns the client of the gateway that the flags name: --gateway, else the socket of
// the configuration. The names are those in the path of the request.
func (c *cli) client(names ...string) (*client.Client, error) {
	gateway, err := c.openClient()
	if err != nil {
		return nil, err
	}
	if err := gateway.CheckNames(names...); err != nil {
		return nil, &usageError{err}
	}
	return gateway, nil
}

func (c *cli) openClient() (*client.Client, error) {
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
	return client.NewSocket(file.Path(file.Admin.Socket))
}

// token reads the file of --token-file. A socket needs none.
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

// terminal returns where the command prints, with --json for a machine.
func (c *cli) terminal(streams std) terminal.Terminal {
	return terminal.Terminal{Out: streams.out, Err: streams.err, JSON: c.JSON}
}

// show asks the gateway for one document and prints it: with --json as it is, else by write. The
// names are those in the path of the request.
func show[T any](c *cli, streams std, ask client.Request, write func(out io.Writer, document T) error, names ...string) error {
	gateway, err := c.client(names...)
	if err != nil {
		return err
	}
	return terminal.Show(c.terminal(streams), gateway, ask, write)
}

// printDocument prints a document: with --json as it is, else by write.
func printDocument[T any](c *cli, streams std, document T, write func(out io.Writer, document T) error) error {
	return terminal.Print(c.terminal(streams), document, write)
}

// printLine is printDocument for a document that is one line.
func printLine[T any](c *cli, streams std, document T, line string) error {
	return printDocument(c, streams, document, terminal.Line(func(T) string { return line }))
}

// report is show for a document that is one line.
func report[T any](c *cli, streams std, ask client.Request, line func(document T) string, names ...string) error {
	return show(c, streams, ask, terminal.Line(line), names...)
}

// list prints one page of a list, or with watch the page and then each change.
func list[T any](ctx context.Context, c *cli, streams std, ask client.Request, watch bool, t text.Table[T], names ...string) error {
	gateway, err := c.client(names...)
	switch {
	case err != nil:
		return err
	case watch:
		return terminal.Watch(ctx, c.terminal(streams), gateway, ask, t)
	}
	return terminal.List(c.terminal(streams), gateway, ask, t)
}

// printJSON writes one document for a machine.
func printJSON(streams std, document any) error {
	return terminal.Terminal{Out: streams.out}.WriteJSON(document)
}

// listFlags are the flags of every list.
type listFlags struct {
	Limit  int    `default:"50" help:"How many, at most 500." placeholder:"N"`
	Cursor string `help:"Go on from where another list ended." placeholder:"C"`
}

// watchFlag is the flag of the lists that can be watched.
type watchFlag struct {
	Watch bool `help:"Go on printing what changes, until stopped."`
}

// parameter returns the parameter watch of a request, nil for none.
func (f watchFlag) parameter() *string {
	if f.Watch {
		return new("")
	}
	return nil
}

// reasonFlag is the flag of every command that changes something.
type reasonFlag struct {
	Reason string `help:"Why, for the audit log." placeholder:"TEXT"`
}

// changeFlags are the flags of the commands that can also say what they would change.
type changeFlags struct {
	reasonFlag

	DryRun bool `help:"Say what would happen, and change nothing." name:"dry-run"`
}

// dry returns the parameter dry_run of a request, nil for none.
func (f changeFlags) dry() *string {
	if f.DryRun {
		return new("true")
	}
	return nil
}

// act returns the flags as a request has them.
func (f changeFlags) act() contract.Act {
	return contract.Act{Reason: f.Reason, DryRun: f.DryRun}
}

// said returns a line about a change, with a mark where nothing was changed.
func (f changeFlags) said(line string) string {
	if f.DryRun {
		return "dry run: " + line
	}
	return line
}

// change asks the gateway for a change and prints a line about it.
func (f changeFlags) change(c *cli, streams std, ask client.Request, line func(changed int) string, names ...string) error {
	return report(c, streams, ask, func(done contract.Acted) string { return f.said(line(done.Changed)) }, names...)
}

// changeEach asks for the change of one thing after another, and prints a line about each.
func (f changeFlags) changeEach(
	c *cli, streams std, ids []string, ask func(api *contract.Client, id string) (*http.Response, error), did string,
) error {
	for _, id := range ids {
		err := f.change(c, streams, func(api *contract.Client) (*http.Response, error) { return ask(api, id) },
			func(n int) string { return fmt.Sprintf("%s: %d %s", id, n, did) }, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// yesFlag is the flag of the commands that destroy something.
type yesFlag struct {
	Yes bool `help:"Do not ask first."`
}

// ask asks on the terminal whether to go on, unless --yes says so or nothing is destroyed.
func (f yesFlag) ask(streams std, dry bool, question string) error {
	if f.Yes || dry || (terminal.Terminal{Err: streams.err}).Confirm(os.Stdin, question) {
		return nil
	}
	return &usageError{errors.New("nothing was done: say --yes")}
}
