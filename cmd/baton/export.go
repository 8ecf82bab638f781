package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"baton/federation"
	"baton/federation/passport"
)

// handoffExport writes a passport.
type handoffExport struct {
	ID     string `arg:"" help:"The id, or its last six characters or more."`
	Output string `help:"Where it is written; else to stdout." placeholder:"FILE" short:"o" type:"path"`
}

// Help has one example.
func (handoffExport) Help() string {
	return `Writes the passport of a handoff: the file that proves it to anybody, without this gateway.

Example:

	baton handoff export Y6Z0AB -o passport.json`
}

// Run fetches the passport and writes it.
func (cmd handoffExport) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.ID)
	if err != nil {
		return err
	}
	text, err := gateway.fetchPassport(ctx, cmd.ID)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if cmd.Output == "" {
		_, err = streams.out.Write(text)
		return err
	}
	return os.WriteFile(cmd.Output, text, 0o600)
}

// fetchPassport returns the passport of a handoff.
func (c *client) fetchPassport(ctx context.Context, id string) ([]byte, error) {
	response, err := c.GetPassport(ctx, id)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if told := response.Header.Get("Content-Type"); told != passport.MediaType {
		return nil, fmt.Errorf("the gateway answers with %q, want a passport", told)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, passport.MaxBytes+1))
	if err != nil {
		return nil, &federation.UnavailableError{What: "gateway", Err: err}
	}
	return text, nil
}
