package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// reasonFlag is that of every command that changes something.
type reasonFlag struct {
	Reason string `help:"Why, for the audit log." placeholder:"TEXT"`
}

// changeFlags are those of the commands that can also say what they would change.
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
func (f changeFlags) act() operatorapi.Act {
	return operatorapi.Act{Reason: f.Reason, DryRun: f.DryRun}
}

// said returns a line about a change, as one about a change that would be made where
// none was.
func (f changeFlags) said(line string) string {
	if f.DryRun {
		return "dry run: " + line
	}
	return line
}

// request is one request of a command.
type request func(api *contract.Client) (*http.Response, error)

// change asks the gateway for a change and says what came of it, or would. The names are those in
// the path of the request.
func change(c *cli, streams std, ask request, flags changeFlags, say func(changed int) string, names ...string) error {
	gateway, err := c.client(names...)
	if err != nil {
		return err
	}
	done, err := answered[operatorapi.Acted](ask(gateway.Client))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	_, err = fmt.Fprintln(streams.out, flags.said(say(done.Changed)))
	return err
}

// yesFlag is that of the commands that destroy something.
type yesFlag struct {
	Yes bool `help:"Do not ask first."`
}

// ask asks on the terminal whether to go on, unless --yes said so or nothing is
// destroyed.
func (f yesFlag) ask(streams std, dry bool, question string) error {
	if f.Yes || dry {
		return nil
	}
	fmt.Fprintf(streams.err, "%s [y/N] ", printable(question))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return &usageError{errors.New("nothing was done: say --yes")}
}
