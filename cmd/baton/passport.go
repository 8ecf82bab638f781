package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/passport"
	"github.com/baton-gateway/baton/translate/dialect"
)

type handoffVerify struct {
	File string `arg:"" help:"The passport; - is stdin."`
}

// Run prints the verdict on the passport, and fails unless it is valid.
func (cmd handoffVerify) Run(ctx context.Context, c *cli, streams std) error {
	text, err := readPassport(cmd.File)
	if err != nil {
		return err
	}
	checker := passport.Checker{Read: dialect.FromDocument, Replay: lifecycle.Shipped().Replay, KeyDID: identity.KeyDID}
	report := checker.Verify(ctx, text)
	if err := printReport(c, streams, report); err != nil {
		return err
	}
	return report.Err()
}

func readPassport(name string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, fmt.Errorf("read passport: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, passport.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read passport: %w", err)
	}
	return text, nil
}

func printReport(c *cli, streams std, report passport.Report) error {
	if c.JSON {
		return printJSON(streams, struct {
			Verdict string `json:"verdict"`
			passport.Report
		}{report.Verdict.String(), report})
	}
	if report.Verdict != federation.Valid {
		return nil // the error reports it
	}
	fmt.Fprintln(streams.out, report.Sentence())
	for _, word := range report.Words {
		fmt.Fprintln(streams.out, word)
	}
	return nil
}
