package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// linkCommands look at links.
type linkCommands struct {
	List linkList `cmd:"" help:"List links, and how they stand."`
	Show linkShow `cmd:"" help:"Show one link, with what was negotiated."`

	Explain linkExplain `cmd:"" help:"Tell what the other side of a link must set."`
}

// linkList lists links.
type linkList struct {
	listFlags
	watchFlag
}

// Help has one example.
func (linkList) Help() string { return "Example:\n\n\tbaton link list --watch" }

// Run prints the list.
func (cmd linkList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListLinks(ctx, &contract.ListLinksParams{Limit: &cmd.Limit, Cursor: cmd.Cursor, Watch: cmd.parameter()})
	}, cmd.Watch, table[operatorapi.Link]{
		header: "NAME | NETWORK | STATE | HEARD | WAITING | OLDEST | NEXT | LAST ERROR",
		row: func(l operatorapi.Link) []string {
			now := time.Now()
			return []string{
				l.Name, l.Network, l.State, age(l.LastHeard, now), strconv.Itoa(l.Waiting), age(l.Oldest, now), until(l.NextDial, now), l.LastError,
			}
		},
	})
}

// until returns how long it is until something.
func until(at operatorapi.Moment, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return max(time.Time(at).Sub(now), 0).Round(time.Second).String()
}

// linkShow shows one link.
type linkShow struct {
	Name string `arg:"" help:"The name of the link."`
}

// Help has one example.
func (linkShow) Help() string { return "Example:\n\n\tbaton link show lab" }

// Run prints the link.
func (cmd linkShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Name)
	if err != nil {
		return err
	}
	l, err := answered[operatorapi.Link](gateway.GetLink(ctx, cmd.Name))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, l)
	}
	return printLink(streams, l, time.Now())
}

// printLink writes a link for people, a line for each thing to know.
func printLink(streams std, l operatorapi.Link, now time.Time) error {
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	say := func(name, value string) { fmt.Fprintf(out, "%s\t%s\n", name, shown(value)) }
	say("name", l.Name)
	say("network", l.Network)
	say("state", l.State)
	say("heard", age(l.LastHeard, now))
	say("waiting", strconv.Itoa(l.Waiting))
	say("oldest", age(l.Oldest, now))
	say("next dial", until(l.NextDial, now))
	say("last error", l.LastError)
	if l.LinkDetail == nil {
		return out.Flush()
	}
	say("channels", strings.Join(l.Channels, " "))
	for _, name := range slices.Sorted(maps.Keys(l.Negotiated)) {
		say("negotiated "+name, l.Negotiated[name])
	}
	say("steps a minute of one user", strconv.Itoa(l.Limits.UserEventsPerMinute))
	say("steps a second", strconv.Itoa(l.Limits.LinkEventsPerSecond))
	say("clock ahead by", strconv.FormatFloat(l.SkewSeconds, 'f', -1, 64)+"s")
	for _, what := range l.NotCarried {
		say("not carried", what)
	}
	return out.Flush()
}
