package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/baton-gateway/baton/cmd/baton/bench"
)

type benchCommand struct {
	Quick   bool   `help:"Measure fewer figures, in half a minute instead of three."`
	Record  int    `help:"Size of the large record in steps, without a time limit." placeholder:"N"`
	DSNFile string `env:"BATON_BENCH_DSN_FILE" help:"A file with the connection string of a PostgreSQL server, for temporary schemas." name:"dsn-file" placeholder:"FILE" type:"path"`
	Report  string `help:"Write the figures and their plots to this file, as HTML." name:"output" placeholder:"FILE" short:"o"`
}

// Help describes the output, with an example.
func (benchCommand) Help() string {
	return `The command starts its own gateways on loopback, in a temporary folder. Each row
compares a figure with its baseline, the floor, measured alternately in the same run. The row for
PostgreSQL needs --dsn-file.

With --json: {"measured_at", "system", "cores", "quick", "rows": [], "plots": []}. A row is
{"name", "what", "value", "unit"}; with a floor, also "floor", "floor_value" and
"ratio", the value divided by that of the floor; if the project has one, "goal"; without a
value, "not_measured" has the reason. "name" and "unit" are stable across releases.
A plot is {"title", "x", "y", "series": [{"name", "points": [[x, y]]}]}.

Example:

	baton bench --quick -o report.html
	baton bench --json --dsn-file /etc/baton/dsn`
}

// Run prints a table of ratios.
func (cmd benchCommand) Run(ctx context.Context, c *cli, streams std) error {
	options, err := cmd.options(streams)
	if err != nil {
		return err
	}
	report, err := bench.Run(ctx, options)
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

func (cmd benchCommand) options(streams std) (bench.Options, error) {
	program, err := os.Executable()
	if err != nil {
		return bench.Options{}, fmt.Errorf("find this program: %w", err)
	}
	o := bench.Options{
		Program: program, Sizes: bench.Full(),
		Begins: func(subject string) { fmt.Fprintln(streams.err, "measuring "+subject) },
	}
	if cmd.Quick {
		o.Sizes = bench.Quick()
	}
	if cmd.Record < 0 {
		return o, &usageError{errors.New("--record: want a number of steps")}
	}
	if cmd.Record > 0 {
		o.Sizes = o.Sizes.Reach(cmd.Record)
	}
	if cmd.DSNFile != "" {
		dsn, err := os.ReadFile(cmd.DSNFile)
		if err != nil {
			return o, fmt.Errorf("read connection string: %w", err)
		}
		o.Postgres = strings.TrimSpace(string(dsn))
	}
	return o, nil
}

func writePage(path string, report *bench.Report) (err error) {
	file, err := os.Create(path) //nolint:gosec // the operator names the path
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return report.WritePage(file)
}
