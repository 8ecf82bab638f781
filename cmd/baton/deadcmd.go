package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// deadCommands see and settle deliveries that were given up.
type deadCommands struct {
	List   deadList   `cmd:"" help:"List dead letters, the newest first."`
	Show   deadShow   `cmd:"" help:"Show one, with its attempts and what may be done."`
	Replay deadReplay `cmd:"" help:"Put dead letters back to be delivered. Twice does no harm."`
	Drop   deadDrop   `cmd:"" help:"Forget dead letters; the sender is told."`
	Export deadExport `cmd:"" help:"Write all of them as JSON lines."`
}

// deadList lists dead letters.
type deadList struct {
	listFlags
	watchFlag

	Reason string `help:"Of one reason: expired, refused, failed, unreadable or operator." placeholder:"WORD"`
	Peer   string `help:"To one link or other registry." placeholder:"NAME"`
}

// Help has one example.
func (deadList) Help() string { return "Example:\n\n\tbaton dead list --reason refused" }

// Run prints the list.
func (cmd deadList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListDead(ctx, &contract.ListDeadParams{Limit: &cmd.Limit, Cursor: cmd.Cursor, Watch: cmd.parameter(), Reason: cmd.Reason, Peer: cmd.Peer})
	}, cmd.Watch, table[operatorapi.DeadLetter]{
		header: "ID | DIED | TO | VERB | HANDOFF | ATTEMPTS | REASON | LAST ERROR",
		row: func(d operatorapi.DeadLetter) []string {
			return []string{
				strconv.FormatInt(d.ID, 10), d.Died.String(), d.Link + d.Peer, string(d.Verb), d.HandoffID.Short(),
				strconv.Itoa(d.Attempt), string(d.Reason), d.LastError,
			}
		},
	})
}

// deadShow shows one dead letter.
type deadShow struct {
	ID string `arg:"" help:"As in dead list."`
}

// Help has one example.
func (deadShow) Help() string { return "Example:\n\n\tbaton dead show 17" }

// Run prints it.
func (cmd deadShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.ID)
	if err != nil {
		return err
	}
	d, err := answered[operatorapi.DeadLetter](gateway.GetDead(ctx, cmd.ID))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, d)
	}
	return printDead(streams, d)
}

// printDead writes a dead letter for people, a line for each thing to know.
func printDead(streams std, d operatorapi.DeadLetter) error {
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	say := func(name, value string) { fmt.Fprintf(out, "%s\t%s\n", name, shown(value)) }
	say("id", strconv.FormatInt(d.ID, 10))
	say("to", d.Link+d.Peer)
	if !d.EventID.IsZero() {
		say("event", fmt.Sprintf("%s  %s of %s", d.EventID, d.Verb, d.HandoffID))
	}
	if d.Message != "" {
		say("message", d.Message)
	}
	say("queued", d.Queued.String())
	say("died", d.Died.String())
	say("reason", string(d.Reason))
	say("last error", d.LastError)
	if !d.Replayed.IsZero() {
		say("replayed", d.Replayed.String())
	}
	if d.DeadDetail == nil {
		return out.Flush()
	}
	say("verdict", d.Verdict)
	if d.Broken != "" {
		say("broken", d.Broken)
	}
	say("raw", d.Raw)
	if d.Signature != "" {
		say("signature", d.Signature)
	}
	for _, t := range d.Attempts {
		say("attempt "+strconv.Itoa(t.Number), t.Time.String()+"  "+t.Error)
	}
	say("what to do", d.Fix)
	return out.Flush()
}

// deadIDs is what the commands share that change dead letters.
type deadIDs struct {
	changeFlags

	IDs []string `arg:"" optional:"" help:"As in dead list." name:"id"`
	All bool     `help:"All of them."`
}

func (d deadIDs) run(ctx context.Context, c *cli, streams std, verb, did string) error {
	if d.All == (len(d.IDs) > 0) {
		return &usageError{errors.New("name dead letters, or say --all")}
	}
	if d.All {
		d.IDs = []string{"all"}
	}
	for _, id := range d.IDs {
		err := change(c, streams, func(api *contract.Client) (*http.Response, error) {
			return api.SettleDead(ctx, id, verb, d.act())
		}, d.changeFlags, func(n int) string {
			return fmt.Sprintf("%s: %d %s", id, n, did)
		}, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// deadReplay puts dead letters back.
type deadReplay struct{ deadIDs }

// Help has one example.
func (deadReplay) Help() string {
	return "Example:\n\n\tbaton dead replay 17 --reason \"they let us in\""
}

// Run puts them back.
func (cmd deadReplay) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "replay", "put back")
}

// deadDrop forgets dead letters.
type deadDrop struct {
	deadIDs
	yesFlag
}

// Help has one example.
func (deadDrop) Help() string { return "Example:\n\n\tbaton dead drop 17 --yes" }

// Run forgets them.
func (cmd deadDrop) Run(ctx context.Context, c *cli, streams std) error {
	if err := cmd.ask(streams, cmd.DryRun, "forget these dead letters for good?"); err != nil {
		return err
	}
	return cmd.run(ctx, c, streams, "drop", "dropped")
}

// deadExport writes dead letters to a file.
type deadExport struct {
	Out string `short:"o" help:"The file; else to standard output." placeholder:"FILE"`
}

// Help has one example.
func (deadExport) Help() string { return "Example:\n\n\tbaton dead export -o dead.jsonl" }

// Run writes a line for each, whole.
func (cmd deadExport) Run(ctx context.Context, c *cli, streams std) (err error) {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	if cmd.Out == "" {
		return exportDead(ctx, gateway, streams.out)
	}
	file, err := os.OpenFile(cmd.Out, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return exportDead(ctx, gateway, file)
}

func exportDead(ctx context.Context, gateway *client, out io.Writer) error {
	lines := json.NewEncoder(out)
	params := contract.ListDeadParams{Limit: new(operatorapi.MaxLimit)}
	for {
		page, err := answered[operatorapi.Page[operatorapi.DeadLetter]](gateway.ListDead(ctx, &params))
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			d, err := answered[operatorapi.DeadLetter](gateway.GetDead(ctx, strconv.FormatInt(item.ID, 10)))
			if err != nil {
				return err
			}
			if err := lines.Encode(d); err != nil {
				return err
			}
		}
		if page.NextCursor == "" {
			return nil
		}
		params.Cursor = page.NextCursor
	}
}

// auditCommands see what operators changed.
type auditCommands struct {
	List auditList `cmd:"" help:"List what operators changed, the newest first."`
}

// auditList lists changes.
type auditList struct {
	listFlags
	watchFlag

	Since string `help:"Then or later: a time, or a duration back from now." placeholder:"TIME"`
	Actor string `help:"By one operator." placeholder:"NAME"`
}

// Help has one example.
func (auditList) Help() string { return "Example:\n\n\tbaton audit list --since 24h" }

// Run prints the list.
func (cmd auditList) Run(ctx context.Context, c *cli, streams std) error {
	since, err := parseSince(cmd.Since, time.Now())
	if err != nil {
		return err
	}
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListAudit(ctx, &contract.ListAuditParams{Limit: &cmd.Limit, Cursor: cmd.Cursor, Watch: cmd.parameter(), Since: since, Actor: cmd.Actor})
	}, cmd.Watch, table[operatorapi.Change]{
		header: "TIME | ACTOR | WHAT | SUBJECT | REASON",
		row: func(ch operatorapi.Change) []string {
			return []string{ch.Time.String(), ch.Actor, ch.What, ch.Subject, ch.Reason}
		},
	})
}
