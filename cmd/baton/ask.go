package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"baton/bridge/operatorapi/client"
	"baton/bridge/operatorapi/contract"
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

// show asks the gateway for one document and prints it: with --json as it is, else by write. The
// names are those in the path of the request.
func show[T any](c *cli, streams std, ask client.Request, write func(out io.Writer, document T) error, names ...string) error {
	gateway, err := c.client(names...)
	if err != nil {
		return err
	}
	document, err := client.Ask[T](gateway, ask)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, document)
	}
	return write(streams.out, document)
}

// report is show for a document that is one line.
func report[T any](c *cli, streams std, ask client.Request, line func(document T) string, names ...string) error {
	return show(c, streams, ask, func(out io.Writer, document T) error {
		_, err := fmt.Fprintln(out, line(document))
		return err
	}, names...)
}

// list prints one page of a list, or with watch the page and then each change.
func list[T any](ctx context.Context, c *cli, streams std, ask client.Request, watch bool, t text.Table[T], names ...string) error {
	gateway, err := c.client(names...)
	if err != nil {
		return err
	}
	if watch {
		return watchList(ctx, gateway, c.JSON, streams, ask, t)
	}
	page, err := client.Ask[contract.Page[T]](gateway, ask)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, page)
	}
	if err := t.Print(streams.out, true, page.Items...); err != nil {
		return err
	}
	if page.NextCursor != "" {
		fmt.Fprintf(streams.err, "there are more: --cursor %s\n", page.NextCursor)
	}
	return nil
}

// watchList prints each line of a list as it comes.
func watchList[T any](ctx context.Context, gateway *client.Client, asJSON bool, streams std, ask client.Request, t text.Table[T]) error {
	header := true
	return gateway.Watch(ctx, ask, func(line []byte) error {
		if asJSON {
			_, err := fmt.Fprintf(streams.out, "%s\n", line)
			return err
		}
		var item T
		if err := json.Unmarshal(line, &item); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		defer func() { header = false }()
		return t.Print(streams.out, header, item)
	})
}

// printJSON writes one document for a machine.
func printJSON(streams std, document any) error {
	encoder := json.NewEncoder(streams.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
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

// yesFlag is the flag of the commands that destroy something.
type yesFlag struct {
	Yes bool `help:"Do not ask first."`
}

// ask asks on the terminal whether to go on, unless --yes says so or nothing is destroyed.
func (f yesFlag) ask(streams std, dry bool, question string) error {
	if f.Yes || dry {
		return nil
	}
	fmt.Fprintf(streams.err, "%s [y/N] ", text.Printable(question))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return &usageError{errors.New("nothing was done: say --yes")}
}
