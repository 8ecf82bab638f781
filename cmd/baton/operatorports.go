package main

import (
	"context"
	"io"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
	"baton/federation/store/backup"
)

// operatorPorts implements the ports of the operator API that are about the running gateway.
type operatorPorts struct {
	boundRecord

	program *program
}

var (
	_ operatorapi.Deadlines = operatorPorts{}
	_ operatorapi.Mailboxes = operatorPorts{}
	_ operatorapi.Links     = operatorPorts{}
	_ operatorapi.Peers     = operatorPorts{}
	_ operatorapi.Bindings  = operatorPorts{}
	_ operatorapi.Blocks    = operatorPorts{}
	_ operatorapi.Senders   = operatorPorts{}
	_ operatorapi.Vault     = operatorPorts{}
	_ operatorapi.Refusals  = operatorPorts{}
)

// Ends implements [operatorapi.Deadlines].
func (o operatorPorts) Ends(view federation.View) (federation.Verb, time.Time) {
	return o.program.gateway.Home().Ends(view)
}

// MoveInbox implements [operatorapi.Mailboxes].
func (o operatorPorts) MoveInbox(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (operatorapi.Moved, error) {
	return o.program.homes.moveInbox(ctx, did, to, dry)
}

// Routes implements [operatorapi.Mailboxes].
func (o operatorPorts) Routes(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error) {
	return o.program.homes.locator.OfParties(ctx, v)
}

// Links implements [operatorapi.Links].
func (o operatorPorts) Links() []operatorapi.LinkStatus { return o.program.statuses() }

// Peers implements [operatorapi.Peers].
func (o operatorPorts) Peers() []operatorapi.Peer { return o.program.peers() }

// SetMode implements [operatorapi.Peers].
func (o operatorPorts) SetMode(ctx context.Context, m federation.PeerMode, dry bool) error {
	return o.program.setMode(ctx, m, dry)
}

// AddPeer implements [operatorapi.Peers].
func (o operatorPorts) AddPeer(ctx context.Context, ask operatorapi.Peering) (operatorapi.Peered, error) {
	return o.program.homes.addPeer(ctx, ask)
}

// RemovePeer implements [operatorapi.Peers].
func (o operatorPorts) RemovePeer(ctx context.Context, name string, dry bool) (operatorapi.Peer, error) {
	return o.program.homes.removePeer(ctx, name, dry)
}

// CheckRelay implements [operatorapi.Peers].
func (o operatorPorts) CheckRelay(ctx context.Context) []operatorapi.Check {
	return o.program.checkRelay(ctx)
}

// Configured implements [operatorapi.Bindings].
func (o operatorPorts) Configured() []federation.BoundName { return *o.program.configured.Load() }

// Block implements [operatorapi.Blocks].
func (o operatorPorts) Block(ctx context.Context, b federation.Block, purge, dry bool) (federation.Block, operatorapi.Purged, error) {
	return o.program.block(ctx, b, purge, dry)
}

// Unblock implements [operatorapi.Blocks].
func (o operatorPorts) Unblock(ctx context.Context, b federation.Block, dry bool) error {
	return o.program.gateway.Unblock(ctx, b, dry)
}

// Top implements [operatorapi.Senders].
func (o operatorPorts) Top(by string, since time.Duration, limit int, now time.Time) []operatorapi.Sender {
	return o.program.top(by, since, limit, now)
}

// Backup implements [operatorapi.Vault].
func (o operatorPorts) Backup(ctx context.Context) (io.ReadCloser, error) {
	return backup.Stream(ctx, sourceOf(o.program.file), o.program.file.Path("."))
}

// Rotate implements [operatorapi.Vault].
func (o operatorPorts) Rotate(ctx context.Context, name string, overlap time.Duration, now time.Time) (contract.Key, error) {
	return o.program.rotate(ctx, name, overlap, now)
}

// Refused implements [operatorapi.Refusals].
func (o operatorPorts) Refused(code federation.RefusalCode) {
	o.program.counters.Refusals.WithLabelValues("operator", code.Upper()).Inc()
}
