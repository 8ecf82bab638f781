package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
)

type deadCommands struct {
	List   deadList   `cmd:"" example:"dead list --reason refused" help:"List dead letters, newest first."`
	Show   deadShow   `cmd:"" example:"dead show 17" help:"Show one dead letter, with its attempts and the possible actions."`
	Replay deadReplay `cmd:"" example:"dead replay --cause refused --reason \"they let us in\"" help:"Deliver dead letters again. Repeating the command has no further effect."`
	Drop   deadDrop   `cmd:"" example:"dead drop 17 --yes" help:"Delete dead letters, and notify their senders."`
	Export deadExport `cmd:"" example:"dead export -o dead.jsonl" help:"Write all dead letters as JSON lines."`
}

type deadList struct {
	listFlags
	watchFlag

	Reason string `help:"Only this reason: expired, refused, failed, unreadable or operator." placeholder:"WORD"`
	Peer   string `help:"Only to this link or other registry." placeholder:"NAME"`
}

// Run prints the list.
func (cmd deadList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListDead, admin.DeadQuery{Reason: cmd.Reason, Peer: cmd.Peer, Watching: cmd.of(cmd.page())}, render.DeadLetters)
}

type deadShow struct {
	ID string `arg:"" help:"ID, as listed by dead list."`
}

// Run prints the dead letter.
func (cmd deadShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(ctx, c, streams, admin.GetDead, admin.ByID{ID: cmd.ID}, render.DeadLetter)
}

type deadIDs struct {
	changeFlags

	IDs   []string `arg:"" optional:"" help:"ID, as listed by dead list." name:"id"`
	All   bool     `help:"All dead letters."`
	Cause string   `help:"All dead letters with this reason: expired, refused, failed, unreadable, operator or blocked." placeholder:"WORD"`
	Peer  string   `help:"All dead letters to this link or other registry." placeholder:"NAME"`
}

func (d deadIDs) run(ctx context.Context, c *cli, streams std, verb, did string) error {
	all := d.All || d.Cause != "" || d.Peer != ""
	if all == (len(d.IDs) > 0) {
		return &usageError{errors.New("name dead letters, or use --all, --cause or --peer")}
	}
	if all {
		d.IDs = []string{"all"}
	}
	return changeEach(ctx, c, streams, d.changeFlags, d.IDs, admin.SettleDead, func(id string) admin.DeadChange {
		return admin.DeadChange{ID: id, Verb: verb, Cause: d.Cause, Peer: d.Peer, Body: d.body()}
	}, did)
}

type deadReplay struct{ deadIDs }

// Run requeues the dead letters.
func (cmd deadReplay) Run(ctx context.Context, c *cli, streams std) error {
	return cmd.run(ctx, c, streams, "replay", "put back")
}

type deadDrop struct {
	deadIDs
	yesFlag
}

// Run discards the dead letters.
func (cmd deadDrop) Run(ctx context.Context, c *cli, streams std) error {
	if err := cmd.ask(streams, cmd.DryRun, "permanently delete these dead letters?"); err != nil {
		return err
	}
	return cmd.run(ctx, c, streams, "drop", "dropped")
}

type deadExport struct {
	Out string `short:"o" help:"Output file. Default: stdout." placeholder:"FILE"`
}

// Run writes one JSON line for each dead letter.
func (cmd deadExport) Run(ctx context.Context, c *cli, streams std) (err error) {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	if cmd.Out == "" {
		return gateway.ExportDeadLetters(ctx, streams.out)
	}
	file, err := os.OpenFile(cmd.Out, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return gateway.ExportDeadLetters(ctx, file)
}

type auditCommands struct {
	List auditList `cmd:"" example:"audit list --since 24h" help:"List changes by operators, newest first."`
}

type auditList struct {
	listFlags
	watchFlag

	Since string `help:"Only entries since this time: a time, or a duration before now." placeholder:"TIME"`
	Actor string `help:"Only entries of this operator." placeholder:"NAME"`
}

// Run prints the list.
func (cmd auditList) Run(ctx context.Context, c *cli, streams std) error {
	since, err := parseSince(cmd.Since, time.Now())
	if err != nil {
		return err
	}
	return list(ctx, c, streams, admin.ListAudit, admin.AuditQuery{Since: since, Actor: cmd.Actor, Watching: cmd.of(cmd.page())}, render.Changes)
}
