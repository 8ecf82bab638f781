package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/bridge/operatorapi"
	"baton/federation"
)

// stepFlags are those of every step.
type stepFlags struct {
	reasonFlag

	From    string `help:"Whose step it is. The gateway vouches for a DID that it has bound." placeholder:"DID"`
	Context string `help:"A file, or an https or at address. JSON that is short goes with the step; any other file is stored at the gateway, and the step refers to it." placeholder:"FILE|URL"`
	KeyFile string `help:"Sign as the did:key of this seed: 64 hexadecimal characters, mode 0600." name:"key-file" placeholder:"FILE"`
}

// offerCommand offers a handoff.
type offerCommand struct {
	stepFlags

	To       string        `help:"To whom." placeholder:"DID" xor:"whom" required:""`
	Open     bool          `help:"To anyone who can do it." xor:"whom" required:""`
	Channel  string        `help:"Where to write it. Default: to the recipient in private, else a channel of its link." placeholder:"#C"`
	Title    string        `help:"What is to be done." placeholder:"TEXT" required:""`
	Caps     []string      `help:"Capabilities that it asks for." placeholder:"A,B"`
	Deadline time.Duration `help:"When it is to be answered, from now." placeholder:"2h"`
}

// Help has one example.
func (offerCommand) Help() string {
	return "Example:\n\n\tbaton handoff offer --from did:key:z6Mk… --to did:key:z6Mk… --title \"Cite three sources on X\" --deadline 2h"
}

// Run offers, and prints the id.
func (cmd offerCommand) Run(ctx context.Context, c *cli, streams std) error {
	ask := operatorapi.Ask{To: cmd.To, Channel: cmd.Channel, Title: cmd.Title, Caps: cmd.Caps}
	if cmd.Deadline > 0 {
		ask.Deadline = operatorapi.Moment(time.Now().Add(cmd.Deadline).Truncate(time.Second))
	}
	filed, err := cmd.take(ctx, c, streams, federation.Offer, "", ask)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, filed)
	}
	_, err = fmt.Fprintln(streams.out, filed.ID)
	return err
}

// stepCommand takes a step in a handoff.
type stepCommand struct {
	stepFlags

	ID   string `arg:"" help:"The id of the handoff, or its last six characters or more."`
	Note string `help:"A word to go with it." placeholder:"TEXT"`

	Wait time.Duration `help:"How long to wait for the ruling of the home of the handoff, where that is another one; 0 for no wait." default:"30s"`

	verb federation.Verb
}

// Help has one example.
func (cmd stepCommand) Help() string {
	return fmt.Sprintf("Example:\n\n\tbaton handoff %s Y6Z0AB --from did:key:z6Mk… --note \"as agreed\"", cmd.verb)
}

// Run takes the step, and prints where the handoff stands after it. Exit code 0 says that the
// step is filed, 3 that it is refused, and 4 that the home of the handoff has not ruled yet.
func (cmd stepCommand) Run(ctx context.Context, c *cli, streams std) error {
	filed, err := cmd.take(ctx, c, streams, cmd.verb, cmd.ID, operatorapi.Ask{Note: cmd.Note, Wait: cmd.Wait.String()})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, filed)
	}
	_, err = fmt.Fprintln(streams.out, filed.ID, filed.State)
	return err
}

// take asks the gateway for one step, signed here where there is a key for it.
func (f stepFlags) take(ctx context.Context, c *cli, streams std, verb federation.Verb, id string, ask operatorapi.Ask) (operatorapi.Filed, error) {
	var filed operatorapi.Filed
	names := []string{id, string(verb)}
	if verb == federation.Offer {
		names = nil
	}
	gateway, err := c.client(names...)
	if err != nil {
		return filed, err
	}
	ask.From, ask.Reason = f.From, f.Reason
	content, err := readContext(f.Context)
	if err != nil {
		return filed, err
	}
	switch {
	case f.KeyFile != "":
		ask, err = signAsk(ctx, gateway, f.KeyFile, verb, id, ask, content)
	case f.From == "":
		err = &usageError{errors.New("--from or --key-file says whose step it is")}
	default:
		ask.Context, ask.ContextHash, err = content.in(ctx, gateway, f.From)
	}
	if err != nil {
		return filed, err
	}
	if verb == federation.Offer {
		filed, err = answered[operatorapi.Filed](gateway.OfferHandoff(ctx, ask))
	} else {
		filed, err = answered[operatorapi.Filed](gateway.endless.TakeStep(ctx, id, string(verb), ask)) // it waits for a ruling
	}
	if err != nil {
		return filed, err
	}
	if filed.Home != "" {
		return filed, &operatorapi.ProblemError{Code: operatorapi.CodeUnavailable, Detail: filed.EventID.String() + ": " + filed.Waits}
	}
	if filed.Waits != "" {
		return filed, &operatorapi.ProblemError{Code: string(federation.SignatureUnverifiable), Detail: filed.EventID.String() + ": " + filed.Waits}
	}
	for _, field := range filed.Lost {
		fmt.Fprintf(streams.err, "baton: handoff %s: the %s did not fit, and was cut\n", verb, field)
	}
	return filed, nil
}
