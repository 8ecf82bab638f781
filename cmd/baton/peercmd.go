package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// peerCommands see and steer other registries and homes.
type peerCommands struct {
	List peerList `cmd:"" help:"List other homes and registries."`
	Show peerShow `cmd:"" help:"Show one."`
	Mode peerMode `cmd:"" help:"Say how one is treated, over what the configuration says."`

	Add    peerAdd    `cmd:"" help:"Look at another home, add it, and offer it a canary."`
	Remove peerRemove `cmd:"" help:"Forget a home that was added."`
}

// peerList lists homes and registries.
type peerList struct{ listFlags }

// Help has one example.
func (peerList) Help() string { return "Example:\n\n\tbaton peer list" }

// Run prints the list.
func (cmd peerList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListPeers(ctx, &contract.ListPeersParams{Limit: &cmd.Limit, Cursor: cmd.Cursor})
	}, false, table[operatorapi.Peer]{
		header: "NAME | NETWORK | MODE | STATE | HEARD | WAITING | OLDEST | DEAD | FORKS | DOUBTS | CLOCK | LAST ERROR",
		row: func(p operatorapi.Peer) []string {
			now, mode, state, heard, forks, doubts, clock := time.Now(), p.Mode, "", "", "", "", ""
			if p.Held {
				mode += " (held)"
			}
			if p.PeerHome != nil {
				state, heard, forks, doubts = p.State, age(p.LastHeard, now), strconv.Itoa(len(p.Forks)), strconv.Itoa(len(p.Doubts))
				clock = clockOf(p)
			}
			return []string{p.Name, p.Network, mode, state, heard, strconv.Itoa(p.Waiting), age(p.Oldest, now), strconv.Itoa(p.Dead), forks, doubts, clock, p.LastError}
		},
	})
}

// clockOf says how far the clock of a home is from the one here: "ok" up to thirty seconds,
// from which on the log warns too.
func clockOf(p operatorapi.Peer) string {
	skew := time.Duration(p.SkewSeconds * float64(time.Second)).Round(time.Second)
	switch {
	case skew > 30*time.Second:
		return skew.String() + " behind"
	case skew < -30*time.Second:
		return (-skew).String() + " ahead"
	}
	return "ok"
}

// peerShow shows one home or registry.
type peerShow struct {
	Name string `arg:"" help:"The name of the home, or the domain of the registry."`
}

// Help has one example.
func (peerShow) Help() string { return "Example:\n\n\tbaton peer show peer.example" }

// Run prints it.
func (cmd peerShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Name)
	if err != nil {
		return err
	}
	p, err := answered[operatorapi.Peer](gateway.GetPeer(ctx, cmd.Name))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, p)
	}
	return printPeer(streams, p, time.Now())
}

// printPeer writes a peer for people, a line for each thing to know.
func printPeer(streams std, p operatorapi.Peer, now time.Time) error {
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	say := func(name, value string) { fmt.Fprintf(out, "%s\t%s\n", name, shown(value)) }
	say("name", p.Name)
	say("network", p.Network)
	say("mode", p.Mode+" by "+p.Origin)
	say("url", p.URL)
	if p.PeerHome == nil {
		say("dialect", p.Dialect)
	} else {
		say("path", p.Path)
		say("state", p.State)
		say("heard", age(p.LastHeard, now))
		say("clock ahead by", strconv.FormatFloat(p.SkewSeconds, 'f', 3, 64)+"s")
	}
	say("waiting", strconv.Itoa(p.Waiting))
	say("oldest", age(p.Oldest, now))
	say("dead letters", strconv.Itoa(p.Dead))
	say("held", strconv.FormatBool(p.Held))
	say("last error", p.LastError)
	if p.PeerHome != nil {
		for _, f := range p.Forks {
			say("two histories of", fmt.Sprintf("%s from step %d, found %s", f.Handoff, f.Version, f.Found))
		}
		for _, d := range p.Doubts {
			say("not believed", fmt.Sprintf("%s, noted %d times, last %s: %s", d.Kind, d.Times, d.Last, d.Why))
		}
	}
	return out.Flush()
}

// peerMode sets the mode of a home or a registry.
type peerMode struct {
	changeFlags

	Name string `arg:"" help:"The name of the home, or the domain of the registry; both, where they have one name."`
	Mode string `arg:"" enum:"allow,limit,hold,block" help:"allow, limit (a registry a few messages a minute, a home ten steps a second), hold (what comes from a registry waits for its recipient, from a home there) or block."`
}

// Help has one example.
func (peerMode) Help() string {
	return "Example:\n\n\tbaton peer mode peer.example limit --reason \"too chatty\""
}

// Run sets it.
func (cmd peerMode) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Name)
	if err != nil {
		return err
	}
	p, err := answered[operatorapi.Peer](gateway.SetPeerMode(ctx, cmd.Name, operatorapi.Mode{Act: cmd.act(), Mode: cmd.Mode}))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, p)
	}
	_, err = fmt.Fprintln(streams.out, cmd.said(p.Name+": "+p.Mode))
	return err
}
