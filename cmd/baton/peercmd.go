package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

type peerCommands struct {
	List peerList `cmd:"" example:"peer list" help:"List other homes and registries."`
	Show peerShow `cmd:"" example:"peer show peer.example" help:"Show one peer."`
	Mode peerMode `cmd:"" example:"peer mode peer.example limit --reason \"too chatty\"" help:"Set the mode of a peer, overriding the configuration."`

	Import  peerImport  `cmd:"" help:"Set the modes of a list of peers."`
	Compare peerCompare `cmd:"" help:"Compare histories with another home now, and send it the missing steps."`

	Add    peerAdd    `cmd:"" help:"Check another home, add it, and offer it a canary."`
	Remove peerRemove `cmd:"" example:"peer remove b.example" help:"Remove an added home."`
}

type peerList struct{ listFlags }

// Run prints the list.
func (cmd peerList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListPeers, cmd.page(), render.Peers)
}

type peerShow struct {
	Name string `arg:"" help:"The name of the home, or the domain of the registry."`
}

// Run prints the peer.
func (cmd peerShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(ctx, c, streams, admin.GetPeer, admin.ByName{Name: cmd.Name}, func(out io.Writer, p admin.Peer) error {
		return render.Peer(out, p, time.Now())
	})
}

type peerMode struct {
	changeFlags

	Name string `arg:"" help:"The name of the home, or the domain of the registry. If both have the name, it selects both."`
	Mode string `arg:"" enum:"allow,limit,hold,block" help:"allow, limit (a few messages per minute from a registry, ten steps per second from a home), hold (messages of a registry wait for the consent of their recipient, steps of a home wait at that home) or block."`
	New  bool   `help:"Allow the name of an unknown registry."`
}

// Run sets the mode.
func (cmd peerMode) Run(ctx context.Context, c *cli, streams std) error {
	mode := admin.Mode{Act: cmd.act(), Mode: cmd.Mode, New: cmd.New}
	return report(ctx, c, streams, admin.SetPeerMode, admin.PeerMode{Name: cmd.Name, Body: route.JSON(mode)}, cmd.line)
}

func (cmd peerMode) line(p admin.Peer) string {
	line := cmd.said(p.Name + ": " + p.Mode)
	if cmd.DryRun && cmd.Mode == "block" && p.PeerHome != nil && p.Waiting > 0 {
		line += fmt.Sprintf("; %d deliveries to it end as dead letters, and are scheduled again once it is allowed", p.Waiting)
	}
	return line
}

type peerAdd struct {
	changeFlags
	yesFlag

	URL          string `arg:"" help:"The address of the home, such as https://b.example."`
	AllowPrivate bool   `help:"Allow a private address, or one without TLS: for tests and closed networks, with fetch.allow_private."`
}

// Help describes the checks, with an example.
func (peerAdd) Help() string {
	return `Reads the description of the home, checks TLS, clock, versions and limits, and prints the result. After confirmation,
the home is permanently a peer, and gets an offer of a canary: a handoff that every home completes automatically. Both homes
must add each other.

Example:

	baton peer add https://b.example`
}

// Run adds the peer, and fails unless the canary is green.
func (cmd peerAdd) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	ask := admin.Peering{Act: admin.Act{Reason: cmd.Reason, DryRun: true}, URL: cmd.URL, AllowPrivate: cmd.AllowPrivate}
	plan, err := client.Call(ctx, gateway, admin.AddPeer, route.JSON(ask))
	if err != nil {
		return err
	}
	if cmd.DryRun && c.JSON {
		return printJSON(streams, plan)
	}
	if !c.JSON {
		fmt.Fprintf(streams.out, "home %s at %s\n", render.Cell(plan.Peer.Name), render.Cell(plan.Peer.URL))
		if err := render.Checks(streams.out, plan.Checks); err != nil {
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
	done, err := client.Call(ctx, gateway, admin.AddPeer, route.JSON(ask))
	if err != nil {
		return err
	}
	return cmd.tell(c, streams, done)
}

func failedCheck(checks []admin.Check) error {
	failed := func(each admin.Check) bool { return each.State == string(federation.FindingFail) }
	if i := slices.IndexFunc(checks, failed); i >= 0 {
		return fmt.Errorf("%s: %s", checks[i].Check, checks[i].Detail)
	}
	return nil
}

// tell returns an error unless the canary is green.
func (peerAdd) tell(c *cli, streams std, done admin.Peered) error {
	err := printLine(c, streams, done, render.Added(done))
	if err == nil && !done.Canary.Green {
		err = &federation.UnavailableError{What: "canary", Err: errors.New(done.Canary.Reason)}
	}
	return err
}

type peerRemove struct {
	changeFlags
	yesFlag

	Name string `arg:"" help:"The name of the home."`
}

// Run removes the peer.
func (cmd peerRemove) Run(ctx context.Context, c *cli, streams std) error {
	if err := cmd.ask(streams, cmd.DryRun, "Remove "+cmd.Name+"? Its pending deliveries wait for another route."); err != nil {
		return err
	}
	return report(ctx, c, streams, admin.RemovePeer, admin.PeerRemoval{Name: cmd.Name, Removal: cmd.removal()}, func(gone admin.Peer) string {
		return cmd.said(gone.Name + " is removed")
	})
}

type peerCompare struct {
	changeFlags

	Name string `arg:"" help:"The name of the home."`
}

// Help implements [kong.HelpProvider].
func (peerCompare) Help() string {
	return `Compares the history of each handoff at both homes, and sends the other home its missing steps. The gateway does this
automatically at each connection after a start. Use the command after a restore that the other side did not notice.

Example:

	baton peer compare b.example --reason "restored from the backup of Monday"`
}

// Run prints the result. It fails if the other home has permanently lost steps.
func (cmd peerCompare) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	done, err := client.Call(ctx, gateway, admin.ComparePeer, admin.ActOnName{Name: cmd.Name, Body: cmd.body()})
	if err != nil {
		return err
	}
	if cmd.DryRun {
		return printLine(c, streams, done, cmd.said("histories are compared with "+cmd.Name))
	}
	return printDocument(c, streams, done, func(out io.Writer, done admin.Compared) error { return render.Compared(out, cmd.Name, done) })
}

type peerImport struct {
	changeFlags

	URL string `arg:"" help:"The address of the list: https://, http:// on this machine, or a file."`
}

// Help describes the form of a list, with an example.
func (peerImport) Help() string {
	return `Reads a list with one domain and one mode per line, such as "spam.example block", and sets these modes. Empty
lines and text after a # are ignored. The whole list is checked before the first mode is set. An unknown domain is
treated as a registry.

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
	return printDocument(c, streams, admin.Page[admin.Peer]{Items: set}, func(out io.Writer, page admin.Page[admin.Peer]) error {
		for _, peer := range page.Items {
			fmt.Fprintln(out, cmd.said(peer.Name+": "+peer.Mode))
		}
		return nil
	})
}
