package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"baton/cmd/baton/bench"
)

// benchCommand measures what a gateway costs on this machine.
type benchCommand struct {
	Quick  bool   `help:"Measure less, in half a minute instead of three."`
	Report string `help:"Write the figures and their plots to this file, as HTML." name:"output" placeholder:"FILE" short:"o"`
}

// Run prints a table of ratios.
func (cmd benchCommand) Run(ctx context.Context, c *cli, streams std) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	report, err := bench.Run(ctx, bench.Options{Program: program, Quick: cmd.Quick, Begins: func(subject string) {
		fmt.Fprintln(streams.err, "measuring "+subject)
	}})
	if err != nil {
		return err
	}
	if cmd.Report != "" {
		if err := writePage(cmd.Report, report); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	if c.JSON {
		return printJSON(streams, report)
	}
	return report.Write(streams.out)
}

func writePage(path string, report *bench.Report) (err error) {
	file, err := os.Create(path) //nolint:gosec // the operator names the path
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return report.WritePage(file)
}
