// Command rivals connects two IRC servers on the loopback in several ways, and measures the losses
// of each: Baton, a link between the servers, matterbridge, and biboumi, which connects an XMPP
// room to one of them.
//
//	rivals [-quick] [-json] [-only baton,link]
//
// A client on one side writes numbered lines, or signed offers in tags, at a steady rate. A client
// on the other side records the arrivals. In the middle, one process is killed with kill -9 and
// restarted. The command names programs that are not installed, and skips their parts.
//
// The command exits with 1 if Baton lost a message or a part could not run, and with 2 for wrong
// arguments.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	quick := flag.Bool("quick", false, "a few cases of a few seconds")
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	only := flag.String("only", "", "names of the ways to measure, separated by commas; all of them without")
	folder := flag.String("folder", "", "an empty folder for configurations, records and logs; it is removed at the end")
	flag.Parse()
	if flag.NArg() > 0 || *folder == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, *folder, *quick, strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }))
	err = errors.Join(err, r.print(os.Stdout, *asJSON), os.RemoveAll(*folder))
	if err == nil {
		err = r.verdict()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		stop()
		os.Exit(1)
	}
}

// After an error, run returns the results so far.
func run(ctx context.Context, folder string, quick bool, only []string) (*report, error) {
	r := &report{Results: []result{}, NotRun: []notRun{}}
	chosen, err := choose(only)
	if err != nil {
		return r, err
	}
	for _, w := range chosen {
		programs, missing := w.find()
		if missing != "" {
			r.NotRun = append(r.NotRun, notRun{Way: w.name, Reason: missing})
			continue
		}
		for _, c := range w.cases(quick) {
			m, err := measure(ctx, folder, w, programs, c)
			if err != nil {
				return r, fmt.Errorf("%s, %s: %w", w.name, c, err)
			}
			r.Results = append(r.Results, m)
		}
	}
	return r, nil
}
