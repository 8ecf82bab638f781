package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"baton/bridge/operatorapi/client"
	"baton/bridge/operatorapi/contract"
)

// peerImport sets the modes of the peers of a list.
type peerImport struct {
	changeFlags

	URL string `arg:"" help:"Where the list is: https://, http:// on this machine, or a file."`
}

// Help says how a list looks, with an example.
func (peerImport) Help() string {
	return `Reads a list with one domain and one mode a line, such as "spam.example block", and sets the mode of each. Empty
lines and what follows a # are comments. Every line is checked before the first mode is set. A domain that is
not known yet is taken for a registry.

Example:

	baton peer import https://lists.example/baton.txt --dry-run`
}

// Run checks every line with a dry run, and then sets the modes.
func (cmd peerImport) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	act := cmd.act()
	if act.Reason == "" {
		act.Reason = "imported from " + cmd.URL
	}
	set, err := gateway.ImportPeers(ctx, cmd.URL, act)
	if errors.Is(err, client.ErrPlainList) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	return printDocument(c, streams, contract.Page[contract.Peer]{Items: set}, func(out io.Writer, page contract.Page[contract.Peer]) error {
		for _, peer := range page.Items {
			fmt.Fprintln(out, cmd.said(peer.Name+": "+peer.Mode))
		}
		return nil
	})
}
