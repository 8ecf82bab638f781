package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

type stepFlags struct {
	reasonFlag

	From    string `help:"Author of the step. The gateway vouches for DIDs bound to it." placeholder:"DID"`
	Context string `help:"A file, or an https or at address. Short JSON is sent with the step; any other file is stored at the gateway, and the step refers to it." placeholder:"FILE|URL"`
	KeyFile string `help:"Sign as the did:key of the seed in this file: 64 hexadecimal characters, mode 0600." name:"key-file" placeholder:"FILE"`
}

type offerCommand struct {
	stepFlags

	To       string        `help:"Recipient." placeholder:"DID" xor:"whom" required:""`
	Open     bool          `help:"Offer to anyone." xor:"whom" required:""`
	Channel  string        `help:"Channel for the offer. Default: private to the recipient if possible, otherwise a channel of its link." placeholder:"#C"`
	Title    string        `help:"Title of the work." placeholder:"TEXT" required:""`
	Caps     []string      `help:"Required capabilities." placeholder:"A,B"`
	Deadline time.Duration `help:"Deadline for an answer, from now." placeholder:"2h"`
}

// Run offers work, and prints the ID of the handoff.
func (cmd offerCommand) Run(ctx context.Context, c *cli, streams std) error {
	ask := admin.Ask{To: cmd.To, Channel: cmd.Channel, Title: cmd.Title, Caps: cmd.Caps}
	if cmd.Deadline > 0 {
		ask.Deadline = admin.Moment(time.Now().Add(cmd.Deadline).Truncate(time.Second))
	}
	return cmd.submit(ctx, c, streams, client.Step{Verb: federation.Offer, Ask: ask}, func(filed admin.Filed) string { return filed.ID.String() })
}

type stepCommand struct {
	stepFlags

	ID   string `arg:"" help:"The ID of the handoff, or at least its last six characters."`
	Note string `help:"Note for the other party." placeholder:"TEXT"`

	Wait time.Duration `help:"Maximum time to wait for the ruling of another home; 0 does not wait." default:"30s"`

	verb federation.Verb
}

// Help implements [kong.HelpProvider].
func (cmd stepCommand) Help() string {
	return fmt.Sprintf("Example:\n\n\tbaton handoff %s Y6Z0AB --from did:key:z6Mk… --note \"as agreed\"", cmd.verb)
}

// Run takes the step, and prints the new state of the handoff. Exit code 0 means filed, 3 refused,
// and 4 that the home of the handoff has not ruled yet.
func (cmd stepCommand) Run(ctx context.Context, c *cli, streams std) error {
	step := client.Step{Verb: cmd.verb, Handoff: cmd.ID, Ask: admin.Ask{Note: cmd.Note, Wait: cmd.Wait.String()}}
	return cmd.submit(ctx, c, streams, step, func(filed admin.Filed) string { return fmt.Sprint(filed.ID, " ", filed.State) })
}

// The step is signed here if --key-file is set.
func (f stepFlags) submit(ctx context.Context, c *cli, streams std, step client.Step, line func(admin.Filed) string) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	step.Ask.From, step.Ask.Reason, step.Context = f.From, f.Reason, f.Context
	switch {
	case f.KeyFile != "":
		key, err := identity.ReadSeed(f.KeyFile)
		if err != nil {
			return err
		}
		if f.From != "" && f.From != string(key.DID) {
			return &usageError{fmt.Errorf("--from is %s, but the key belongs to %s", f.From, key.DID)}
		}
		step.Key = &key
	case f.From == "":
		return &usageError{errors.New("name the sender of the step with --from or --key-file")}
	}
	filed, err := gateway.Take(ctx, step)
	if err != nil {
		return err
	}
	for _, field := range filed.Lost {
		fmt.Fprintf(streams.err, "baton: handoff %s: the %s did not fit, and was cut\n", step.Verb, field)
	}
	for _, warning := range filed.Warnings {
		fmt.Fprintf(streams.err, "baton: handoff %s: %s: %s\n", step.Verb, warning.Code, warning.Detail)
	}
	return printLine(c, streams, filed, line(filed))
}
