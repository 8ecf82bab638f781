package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/translate/taskfile"
)

type dirCommands struct {
	List     dirList     `cmd:"" example:"dir list --status offered" help:"List the tasks of a directory."`
	Show     dirShow     `cmd:"" example:"dir show a1b2c3d4" help:"Show one task."`
	Offer    dirOffer    `cmd:"" example:"dir offer \"Review the auth module\" --from scanner --context file=src/auth.py" help:"Offer a task, and print its ID."`
	Accept   dirAccept   `cmd:"" example:"dir accept a1b2c3d4 --agent reviewer" help:"Accept an offered task."`
	Reject   dirReject   `cmd:"" help:"Reject an offered task."`
	Complete dirComplete `cmd:"" help:"Complete a task."`
	Fail     dirFail     `cmd:"" help:"Fail a task."`
}

type dirFlag struct {
	Dir string `default:".handoffs" env:"HANDOFF_DIR" help:"The directory." placeholder:"DIR"`
}

// open also undoes the claims of killed programs.
func (f dirFlag) open() (directory.Tasks, error) {
	d := directory.Tasks{Path: f.Dir}
	return d, d.Recover(time.Now())
}

type dirList struct {
	dirFlag

	Status string `enum:",offered,accepted,completed,failed,rejected" default:"" help:"Only tasks with this status." placeholder:"STATUS"`
}

// Run prints the list, and names each invalid file on stderr.
func (cmd dirList) Run(c *cli, streams std) error {
	d, err := cmd.open()
	if err != nil {
		return err
	}
	items, odd, err := d.List()
	if err != nil {
		return err
	}
	for _, file := range odd {
		fmt.Fprintf(streams.err, "baton: dir list: %s: %s\n", render.Printable(file.Name), render.Printable(bridge.OneLine(file.Err)))
	}
	raw := []json.RawMessage{}
	for _, item := range items {
		if cmd.Status != "" && string(item.Status) != cmd.Status {
			continue
		}
		raw = append(raw, item.Raw)
		if !c.JSON {
			fmt.Fprintf(streams.out, "%-36s  %-9s  %s -> %s  %s\n", render.Printable(item.ID), item.Status,
				render.Printable(item.From), render.Printable(orAnyone(item.To)), render.Printable(item.Description))
		}
	}
	if c.JSON {
		return printJSON(streams, map[string]any{"items": raw})
	}
	return nil
}

func orAnyone(agent string) string {
	if agent == "" {
		return "anyone"
	}
	return agent
}

type dirShow struct {
	dirFlag

	ID string `arg:"" help:"The ID, or at least its first four characters."`
}

// Run prints the task's record unchanged.
func (cmd dirShow) Run(c *cli, streams std) error {
	d, err := cmd.open()
	if err != nil {
		return err
	}
	id, err := d.Find(cmd.ID)
	if err != nil {
		return err
	}
	item, err := d.Read(id + ".json")
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, json.RawMessage(item.Raw))
	}
	fmt.Fprintln(streams.out, render.Printable(item.ID))
	for _, line := range [][2]string{
		{"status", string(item.Status)},
		{"from", item.From},
		{"to", orAnyone(item.To)},
		{"description", item.Description},
		{"context", item.Context()},
		{"created", item.Created.Format(time.RFC3339)},
		{"updated", item.Updated.Format(time.RFC3339)},
	} {
		fmt.Fprintf(streams.out, "  %-12s %s\n", line[0], render.Printable(line[1]))
	}
	return nil
}

type dirOffer struct {
	dirFlag

	Text    string            `arg:"" optional:"" help:"Title of the work."`
	From    string            `help:"The agent that offers it." placeholder:"AGENT"`
	To      string            `help:"The recipient. Default: anyone." placeholder:"AGENT"`
	Context map[string]string `help:"Input for the recipient; may be repeated." mapsep:"none" placeholder:"KEY=VALUE"`
	Again   string            `help:"Offer a failed task again, under its ID." placeholder:"ID"`
}

// Run creates the record and prints its ID.
func (cmd dirOffer) Run(c *cli, streams std) error {
	d, err := cmd.open()
	if err != nil && cmd.Again != "" {
		return err
	}
	if cmd.Again != "" {
		return changeTask(c, streams, d, cmd.Again, func(id string) (directory.Task, error) { return d.OfferAgain(id, cmd.From, time.Now()) })
	}
	if cmd.Text == "" || cmd.From == "" {
		return &usageError{errors.New("want a text and --from, or --again")}
	}
	context, err := json.Marshal(maps.Clone(cmd.Context))
	if err != nil {
		return err
	}
	if len(cmd.Context) == 0 {
		context = nil
	}
	item, err := d.Offer(cmd.From, cmd.To, cmd.Text, string(context), time.Now())
	if err != nil {
		return err
	}
	return printTask(c, streams, item)
}

type dirStep struct {
	dirFlag

	ID    string `arg:"" help:"The ID, or at least its first four characters."`
	Agent string `help:"The agent that sends the step." placeholder:"AGENT"`
}

func (cmd dirStep) run(c *cli, streams std, to taskfile.Status) error {
	d, err := cmd.open()
	if err != nil {
		return err
	}
	return changeTask(c, streams, d, cmd.ID, func(id string) (directory.Task, error) {
		if to == taskfile.Accepted {
			return d.Accept(id, cmd.Agent, time.Now())
		}
		return d.End(id, cmd.Agent, to, time.Now())
	})
}

type (
	dirAccept   struct{ dirStep }
	dirReject   struct{ dirStep }
	dirComplete struct{ dirStep }
	dirFail     struct{ dirStep }
)

// Run accepts a task.
func (cmd dirAccept) Run(c *cli, streams std) error {
	if cmd.Agent == "" {
		return &usageError{errors.New("--agent: which agent accepts?")}
	}
	return cmd.run(c, streams, taskfile.Accepted)
}

// Run rejects a task.
func (cmd dirReject) Run(c *cli, streams std) error { return cmd.run(c, streams, taskfile.Rejected) }

// Run completes a task.
func (cmd dirComplete) Run(c *cli, streams std) error { return cmd.run(c, streams, taskfile.Completed) }

// Run fails a task.
func (cmd dirFail) Run(c *cli, streams std) error { return cmd.run(c, streams, taskfile.Failed) }

func changeTask(c *cli, streams std, d directory.Tasks, prefix string, change func(id string) (directory.Task, error)) error {
	id, err := d.Find(prefix)
	if err != nil {
		return err
	}
	item, err := change(id)
	if err != nil {
		return err
	}
	return printTask(c, streams, item)
}

func printTask(c *cli, streams std, item directory.Task) error {
	if c.JSON {
		return printJSON(streams, json.RawMessage(item.Raw))
	}
	_, err := fmt.Fprintln(streams.out, item.ID)
	return err
}
