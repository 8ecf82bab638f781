package main

import (
	"context"
	"fmt"
	"net/http"

	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/mailbox"
)

// peerCompare compares histories with another home.
type peerCompare struct {
	changeFlags

	Name string `arg:"" help:"The name of the home."`
}

// Help has one example.
func (peerCompare) Help() string {
	return `Compares how far each handoff goes at both homes, and sends the other home the steps that it lacks, as it does
by itself at each connection after a start. Use it after a restore that the other side did not notice.

Example:

	baton peer compare b.example --reason "restored from the backup of Monday"`
}

// Run prints the result. It fails where the other home has lost steps for good.
func (cmd peerCompare) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Name)
	if err != nil {
		return err
	}
	done, err := gateway.ComparePeer(ctx, cmd.Name, cmd.act())
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, done)
	}
	if cmd.DryRun {
		_, err = fmt.Fprintln(streams.out, cmd.said("histories are compared with "+cmd.Name))
		return err
	}
	fmt.Fprintf(streams.out, "%s: %d handoffs compared, %d were incomplete there and are complete now\n", cmd.Name, done.Compared, done.Sent)
	for _, lost := range done.Lost {
		fmt.Fprintf(streams.out, "%s  orphaned: %s has %d of its %d steps; end it with baton handoff orphan end\n", lost.Handoff, cmd.Name, lost.Have, lost.Version)
	}
	return nil
}

// ComparePeer implements [operatorapi.Peers].
func (o operatorPeers) ComparePeer(ctx context.Context, home federation.HomeID, dry bool) (operatorapi.Compared, error) {
	said := operatorapi.Compared{Lost: []operatorapi.Loss{}}
	peer := o.p.homes.peer(home)
	if peer == nil {
		return said, &operatorapi.ProblemError{Status: http.StatusNotFound, Code: operatorapi.CodeNotFound, Detail: (&mailbox.PeerError{Home: home}).Error()}
	}
	if dry {
		return said, nil
	}
	done, err := peer.CompareNow(ctx)
	said.Compared, said.Sent = done.Handoffs, done.Sent+done.Restored
	for _, l := range done.Lost {
		said.Lost = append(said.Lost, operatorapi.Loss{Handoff: l.Handoff, Version: l.Version, Have: l.Have})
	}
	return said, err
}
