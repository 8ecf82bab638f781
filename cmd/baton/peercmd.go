package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"baton/bridge/operatorapi/client"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/text"
	"baton/federation"
)

// peerCommands see and steer other registries and homes.
type peerCommands struct {
	List peerList `cmd:"" example:"peer list" help:"List other homes and registries."`
	Show peerShow `cmd:"" example:"peer show peer.example" help:"Show one."`
	Mode peerMode `cmd:"" example:"peer mode peer.example limit --reason \"too chatty\"" help:"Say how one is treated, over what the configuration says."`

	Import  peerImport  `cmd:"" help:"Set the modes of a list of peers."`
	Compare peerCompare `cmd:"" help:"Compare histories with another home now, and send what it lacks."`

	Add    peerAdd    `cmd:"" help:"Look at another home, add it, and offer it a canary."`
	Remove peerRemove `cmd:"" example:"peer remove b.example" help:"Forget a home that was added."`
}

// peerList lists homes and registries.
type peerList struct{ listFlags }

// Run prints the list.
func (cmd peerList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListPeers(ctx, &contract.ListPeersParams{Limit: &cmd.Limit, Cursor: cmd.Cursor})
	}, false, text.Peers(time.Now))
}

// peerShow shows one home or registry.
type peerShow struct {
	Name string `arg:"" help:"The name of the home, or the domain of the registry."`
}

// Run prints it.
func (cmd peerShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.GetPeer(ctx, cmd.Name)
	}, func(out io.Writer, p contract.Peer) error { return text.Peer(out, p, time.Now()) }, cmd.Name)
}

// peerMode sets the mode of a home or a registry.
type peerMode struct {
	changeFlags

	Name string `arg:"" help:"The name of the home, or the domain of the registry; both, where they have one name."`
	Mode string `arg:"" enum:"allow,limit,hold,block" help:"allow, limit (a registry a few messages a minute, a home ten steps a second), hold (what comes from a registry waits for its recipient, from a home there) or block."`
	New  bool   `help:"The name is that of a registry that is not known yet."`
}

// Run sets it.
func (cmd peerMode) Run(ctx context.Context, c *cli, streams std) error {
	return report(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.SetPeerMode(ctx, cmd.Name, contract.Mode{Act: cmd.act(), Mode: cmd.Mode, New: cmd.New})
	}, cmd.line, cmd.Name)
}

// line says what a mode does, or would do.
func (cmd peerMode) line(p contract.Peer) string {
	line := cmd.said(p.Name + ": " + p.Mode)
	if cmd.DryRun && cmd.Mode == "block" && p.PeerHome != nil && p.Waiting > 0 {
		line += fmt.Sprintf("; %d deliveries to it end as dead letters, and are scheduled again once it is allowed", p.Waiting)
	}
	return line
}

// peerAdd adds another home.
type peerAdd struct {
	changeFlags
	yesFlag

	URL          string `arg:"" help:"Where the home is reached, such as https://b.example."`
	AllowPrivate bool   `help:"It is at a private address, or without TLS: for tests and closed networks, with fetch.allow_private."`
}

// Help says what is checked, with an example.
func (peerAdd) Help() string {
	return `Reads what the home says of itself, checks TLS, clock, versions and limits, and prints that. On yes the home
is a peer, for good, and is offered a canary: a handoff that every home completes by itself. Both homes have to
add each other.

Example:

	baton peer add https://b.example`
}

// Run adds it, and fails unless the canary is green.
func (cmd peerAdd) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	ask := contract.Peering{Act: contract.Act{Reason: cmd.Reason, DryRun: true}, URL: cmd.URL, AllowPrivate: cmd.AllowPrivate}
	plan, err := client.Read[contract.Peered](gateway.AddPeer(ctx, ask))
	if err != nil {
		return err
	}
	if cmd.DryRun && c.JSON {
		return printJSON(streams, plan)
	}
	if !c.JSON {
		fmt.Fprintf(streams.out, "home %s at %s\n", text.Cell(plan.Peer.Name), text.Cell(plan.Peer.URL))
		if err := text.Checks(streams.out, plan.Checks); err != nil {
			return err
		}
	}
	if err := failedCheck(plan.Checks); err != nil || cmd.DryRun {
		return err
	}
	if err := cmd.ask(streams, false, "Add "+plan.Peer.Name+"?"); err != nil {
		return err
	}
	ask.DryRun = false
	done, err := client.Read[contract.Peered](gateway.AddPeer(ctx, ask))
	if err != nil {
		return err
	}
	return cmd.tell(c, streams, done)
}

// failedCheck returns the first check that failed as an error.
func failedCheck(checks []contract.Check) error {
	failed := func(each contract.Check) bool { return each.State == string(federation.FindingFail) }
	if i := slices.IndexFunc(checks, failed); i >= 0 {
		return fmt.Errorf("%s: %s", checks[i].Check, checks[i].Detail)
	}
	return nil
}

// tell prints the result. A canary that is not green is an error.
func (peerAdd) tell(c *cli, streams std, done contract.Peered) error {
	err := printLine(c, streams, done, text.Added(done))
	if err == nil && !done.Canary.Green {
		err = &federation.UnavailableError{What: "canary", Err: errors.New(done.Canary.Reason)}
	}
	return err
}

// peerRemove ends what peerAdd did.
type peerRemove struct {
	changeFlags
	yesFlag

	Name string `arg:"" help:"The name of the home."`
}

// Run removes it.
func (cmd peerRemove) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Name)
	if err != nil {
		return err
	}
	if err := cmd.ask(streams, cmd.DryRun, "Remove "+cmd.Name+"? Its pending deliveries wait for another route."); err != nil {
		return err
	}
	return report(c, streams, func(*contract.Client) (*http.Response, error) {
		return gateway.RemovePeer(ctx, cmd.Name, &contract.RemovePeerParams{Reason: cmd.Reason, DryRun: cmd.dry()})
	}, func(gone contract.Peer) string { return cmd.said(gone.Name + " is removed") }, cmd.Name)
}
