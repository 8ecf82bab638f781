package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"baton/bridge/rest"
)

// peerCommands see and steer other registries.
type peerCommands struct {
	List peerList `cmd:"" help:"List other registries."`
	Show peerShow `cmd:"" help:"Show one."`
	Mode peerMode `cmd:"" help:"Say how one is treated, over what the configuration says."`
}

// peerList lists registries.
type peerList struct{ listFlags }

// Help has one example.
func (peerList) Help() string { return "Example:\n\n\tbaton peer list" }

// Run prints the list.
func (cmd peerList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, "peers", cmd.query(), false, table[rest.Peer]{
		header: "NAME | NETWORK | MODE | WAITING | OLDEST | DEAD | LAST ERROR",
		row: func(p rest.Peer) []string {
			mode := p.Mode
			if p.Held {
				mode += " (held)"
			}
			return []string{p.Name, p.Network, mode, strconv.Itoa(p.Waiting), age(p.Oldest, time.Now()), strconv.Itoa(p.Dead), p.LastError}
		},
	})
}

// peerShow shows one registry.
type peerShow struct {
	Name string `arg:"" help:"Its domain."`
}

// Help has one example.
func (peerShow) Help() string { return "Example:\n\n\tbaton peer show peer.example" }

// Run prints it.
func (cmd peerShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	var p rest.Peer
	if err := gateway.get(ctx, "peers/"+url.PathEscape(cmd.Name), nil, &p); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, p)
	}
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"name", p.Name},
		{"network", p.Network},
		{"mode", p.Mode + " by " + p.Origin},
		{"url", p.URL},
		{"dialect", p.Dialect},
		{"waiting", strconv.Itoa(p.Waiting)},
		{"oldest", age(p.Oldest, time.Now())},
		{"dead letters", strconv.Itoa(p.Dead)},
		{"held", strconv.FormatBool(p.Held)},
		{"last error", p.LastError},
	} {
		fmt.Fprintf(out, "%s\t%s\n", line[0], shown(line[1]))
	}
	return out.Flush()
}

// peerMode sets the mode of a registry.
type peerMode struct {
	changeFlags

	Name string `arg:"" help:"Its domain."`
	Mode string `arg:"" enum:"allow,limit,hold,block" help:"allow, limit (few messages a minute), hold (what comes waits for its recipient) or block."`
}

// Help has one example.
func (peerMode) Help() string {
	return "Example:\n\n\tbaton peer mode peer.example limit --reason \"too chatty\""
}

// Run sets it.
func (cmd peerMode) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	var p rest.Peer
	err = gateway.ask(ctx, http.MethodPost, "peers/"+url.PathEscape(cmd.Name)+"/mode", nil, rest.Mode{Act: cmd.act(), Mode: cmd.Mode}, &p)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, p)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(p.Name+": "+p.Mode))
	return err
}
