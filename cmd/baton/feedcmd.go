package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// feedCommands see and steer what is still to be delivered.
type feedCommands struct {
	List    feedList    `cmd:"" help:"List what links, other homes and registries are still owed."`
	Shape   feedShape   `cmd:"" help:"Count that by destination and age."`
	Hold    feedHold    `cmd:"" help:"Stop delivering to a link, another home or registry, and stay linked."`
	Release feedRelease `cmd:"" help:"End a hold."`
	Retry   feedRetry   `cmd:"" help:"Deliver now."`
	Fail    feedFail    `cmd:"" help:"Give up, and tell the sender."`
	Drop    feedDrop    `cmd:"" help:"Give up, and tell the audit log alone."`
}

// feedList lists what waits.
type feedList struct {
	listFlags
	watchFlag

	Link    string        `help:"Of one link." placeholder:"NAME"`
	Peer    string        `help:"Of one other home or registry." placeholder:"NAME"`
	Handoff string        `help:"Of one handoff." placeholder:"ID"`
	Older   time.Duration `help:"That waits for longer than that." placeholder:"1h"`
}

// Help has one example.
func (feedList) Help() string { return "Example:\n\n\tbaton feed list --link lab --older 1h" }

// Run prints the list.
func (cmd feedList) Run(ctx context.Context, c *cli, streams std) error {
	params := contract.ListFeedsParams{
		Limit: &cmd.Limit, Cursor: cmd.Cursor, Watch: cmd.parameter(), Link: cmd.Link, Peer: cmd.Peer, Handoff: cmd.Handoff,
	}
	if cmd.Older > 0 {
		params.Older = cmd.Older.String()
	}
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListFeeds(ctx, &params)
	}, cmd.Watch, table[operatorapi.Waiting]{
		header: "ID | VERB | TO | AGE | ATTEMPT | NEXT | LAST ERROR",
		row: func(w operatorapi.Waiting) []string {
			now := time.Now()
			return []string{w.ID, string(w.Verb), w.Link + w.Peer, age(w.Queued, now), strconv.Itoa(w.Attempt), nextTry(w, now), w.LastError}
		},
	})
}

// nextTry says when a delivery is tried.
func nextTry(w operatorapi.Waiting, now time.Time) string {
	switch {
	case w.Held:
		return "held"
	case w.Behind:
		return "behind"
	}
	return until(w.Next, now)
}

// feedShape counts what waits.
type feedShape struct{}

// Help has one example.
func (feedShape) Help() string { return "Example:\n\n\tbaton feed shape" }

// Run prints a line for each destination.
func (feedShape) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListFeedShapes(ctx, &contract.ListFeedShapesParams{})
	}, false, table[operatorapi.Shape]{
		header: "TO | ROWS | <1m | <5m | <1h | <24h | OLDER | OLDEST | HELD",
		row: func(s operatorapi.Shape) []string {
			row := []string{s.Link + s.Peer, strconv.Itoa(s.Rows)}
			for _, n := range s.Ages {
				row = append(row, strconv.Itoa(n))
			}
			held := ""
			if s.Held {
				held = "held " + s.Reason
			}
			return append(row, age(s.Oldest, time.Now()), held)
		},
	})
}

// feedHold holds a destination.
type feedHold struct {
	changeFlags

	Name string `arg:"" help:"The name of a link, or the domain of another registry."`
}

// Help has one example.
func (feedHold) Help() string { return "Example:\n\n\tbaton feed hold lab --reason \"netsplit\"" }

// Run holds it.
func (cmd feedHold) Run(ctx context.Context, c *cli, streams std) error {
	return change(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ChangeFeed(ctx, cmd.Name, "hold", &contract.ChangeFeedParams{}, cmd.act())
	}, cmd.changeFlags, func(int) string {
		return "nothing is delivered to " + cmd.Name + " until it is released"
	}, cmd.Name)
}

// feedRelease ends a hold.
type feedRelease struct {
	changeFlags

	Name string `arg:"" help:"The name of a link, or the domain of another registry."`
}

// Help has one example.
func (feedRelease) Help() string { return "Example:\n\n\tbaton feed release lab" }

// Run ends it.
func (cmd feedRelease) Run(ctx context.Context, c *cli, streams std) error {
	return change(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ChangeFeed(ctx, cmd.Name, "release", &contract.ChangeFeedParams{}, cmd.act())
	}, cmd.changeFlags, func(int) string {
		return cmd.Name + " is delivered to again"
	}, cmd.Name)
}

// feedIDs is what the commands share that are about deliveries.
type feedIDs struct {
	changeFlags

	IDs  []string `arg:"" help:"Ids of events, or of messages to other registries, as in feed list." name:"id"`
	Link string   `help:"Of one link alone." placeholder:"NAME"`
	Peer string   `help:"Of one other home or registry alone." placeholder:"NAME"`
}

func (f feedIDs) run(ctx context.Context, c *cli, streams std, verb, did string) error {
	params := contract.ChangeFeedParams{Link: f.Link, Peer: f.Peer}
	for _, id := range f.IDs {
		err := change(c, streams, func(api *contract.Client) (*http.Response, error) {
			return api.ChangeFeed(ctx, id, verb, &params, f.act())
		}, f.changeFlags, func(n int) string {
			return fmt.Sprintf("%s: %d %s", id, n, did)
		}, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// feedRetry delivers now.
type feedRetry struct{ feedIDs }

// Help has one example.
func (feedRetry) Help() string {
	return "Example:\n\n\tbaton feed retry 01K0A3V9M7Q2X5R8T1W4Y6Z0AB --link lab"
}

// Run asks for it.
func (cmd feedRetry) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "retry", "tried now")
}

// feedFail gives up and tells.
type feedFail struct{ feedIDs }

// Help has one example.
func (feedFail) Help() string {
	return "What is given up becomes a dead letter, and its sender is told.\n\nExample:\n\n\tbaton feed fail 01K0A3V9M7Q2X5R8T1W4Y6Z0AB --reason \"the channel is gone\""
}

// Run gives up.
func (cmd feedFail) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "fail", "given up")
}

// feedDrop gives up and tells nobody.
type feedDrop struct {
	feedIDs
	yesFlag
}

// Help has one example.
func (feedDrop) Help() string {
	return "Nobody is told, and there is no dead letter: it cannot be taken back.\n\nExample:\n\n\tbaton feed drop 01K0A3V9M7Q2X5R8T1W4Y6Z0AB --yes"
}

// Run gives up.
func (cmd feedDrop) Run(ctx context.Context, c *cli, streams std) error {
	if err := cmd.ask(streams, cmd.DryRun, "drop what waits of these for good?"); err != nil {
		return err
	}
	return cmd.run(ctx, c, streams, "drop", "dropped")
}
