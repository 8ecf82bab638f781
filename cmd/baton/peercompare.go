package main

import (
	"context"
	"io"
	"net/http"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/text"
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
	if cmd.DryRun {
		return printLine(c, streams, done, cmd.said("histories are compared with "+cmd.Name))
	}
	return printDocument(c, streams, done, func(out io.Writer, done contract.Compared) error { return text.Compared(out, cmd.Name, done) })
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
