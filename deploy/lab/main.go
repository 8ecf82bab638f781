// Command lab kills the processes of a deployment one after the other with kill -9, while
// agents hand work to each other over HTTP. It ends with 0 if each offer that a gateway
// acknowledged reached its recipient once and was completed.
//
//	lab -folder DIR -senders URL[,URL] -recipients URL,... -kill NAME,...
//
// The folder has a file "processes", a line each: the name of a process and its command. The output
// of a process goes to NAME.log beside it. Addresses of one home are separated by "|": an agent
// that gets no response from one tries the next, as behind a proxy.
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
	"time"
)

// The times of a run.
const (
	startTime   = time.Minute      // until all agents are logged in, and the first offer has arrived
	calmTime    = 3 * time.Second  // before the first kill
	downTime    = 2 * time.Second  // downtime of a killed process
	recoverTime = 30 * time.Second // time after a restart within which offers must arrive everywhere again
	drainTime   = time.Minute      // until the last offer is completed, once no more are made
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		stop()
		os.Exit(1)
	}
}

// run starts the processes, kills the named ones, and audits the outcomes of the offers.
func run(ctx context.Context) error {
	folder := flag.String("folder", "", "the folder with the file processes")
	senders := flag.String("senders", "", "addresses of the home of the agents that offer")
	recipients := flag.String("recipients", "", "addresses of the homes of the agents that work, one agent each")
	kill := flag.String("kill", "", "names of the processes to kill, in their order")
	flag.Parse()
	processes, err := readProcesses(*folder)
	if err != nil {
		return err
	}
	defer processes.stop()
	if err := processes.start(ctx); err != nil {
		return errors.Join(err, processes.told())
	}
	l, err := newLoad(ctx, strings.Split(*senders, ","), strings.Split(*recipients, ","))
	if err != nil {
		return errors.Join(err, processes.told())
	}
	if err := l.run(ctx, func(ctx context.Context) error { return faults(ctx, processes, l, strings.Split(*kill, ",")) }); err != nil {
		return errors.Join(err, processes.told())
	}
	if err := l.audit(ctx); err != nil {
		return errors.Join(err, processes.told())
	}
	return nil
}

// faults kills each of the named processes, starts it again, and prints the longest time that
// a recipient got no offer.
func faults(ctx context.Context, processes *processes, l *load, names []string) error {
	if err := wait(ctx, calmTime); err != nil {
		return err
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		killed := time.Now()
		if err := processes.kill(name); err != nil {
			return err
		}
		if err := wait(ctx, downTime); err != nil {
			return err
		}
		if err := processes.restart(ctx, name); err != nil {
			return err
		}
		if err := l.recovers(ctx, time.Now()); err != nil {
			return fmt.Errorf("after kill -9 of %s: %w", name, err)
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "kill -9 %s: longest gap %s\n", name, l.longestGap(killed, time.Now()).Round(10*time.Millisecond))
	}
	return nil
}

// wait blocks for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
