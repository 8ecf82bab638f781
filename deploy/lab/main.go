// Command lab causes faults in a deployment while agents hand off work to each other. It exits with
// 0 if each acknowledged offer reached its worker once and was completed, and its offerer got each
// answer once.
//
//	lab -folder DIR -offerers AGENT,... -workers AGENT,... -kill NAME,...
//	lab -folder DIR -offerers AGENT,... -workers AGENT,... -chaos 20m [-seed N] [-report FILE]
//
// With -kill, the named processes are killed with kill -9 in turn. With -chaos, the faults in the
// file "faults" occur in a random order.
//
// The folder has files whose lines have a name and more words:
//
//	processes   a process, and its command. Its output goes to NAME.log
//	wires       a path that can be cut, and its addresses: LISTEN=TARGET ...
//	disks       a disk that can be filled, and a folder on it
//	faults      kill, freeze, cut, stall or fill, and the names of processes, wires or disks
//
// An offerer is rest=URL, airc=URL, or irc=HOST:PORT@URL with the URL of its home. A worker is
// rest=URL, airc=URL, or a2a=DID@LISTEN@URL with the address at which a gateway calls it. URLs of
// one home are separated by "|". An agent without a response from one URL tries the next, as behind
// a proxy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/baton-gateway/baton/deploy/agent"
	"github.com/baton-gateway/baton/federation"
)

// The times of a run.
const (
	startTime        = time.Minute     // until all agents are known, and the first offers have arrived
	calmTime         = 3 * time.Second // before the first kill
	downTime         = 2 * time.Second
	recoverTime      = 30 * time.Second // time from a restart until offers arrive everywhere again
	chaosRecoverTime = 3 * time.Minute  // the same after other faults
	drainTime        = 3 * time.Minute  // from the last offer until its completion
	auditTime        = 5 * time.Minute
)

const auditReaders = 16

type options struct {
	folder, offerers, workers, kill, report string
	chaos, pace                             time.Duration
	seed                                    uint64
}

func main() {
	var o options
	flag.StringVar(&o.folder, "folder", "", "folder of the deployment")
	flag.StringVar(&o.offerers, "offerers", "", "agents that offer")
	flag.StringVar(&o.workers, "workers", "", "agents that work")
	flag.StringVar(&o.kill, "kill", "", "names of the processes to kill, in their order")
	flag.DurationVar(&o.chaos, "chaos", 0, "time of random faults")
	flag.DurationVar(&o.pace, "pace", 100*time.Millisecond, "time between two offers of an offerer to a worker")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "seed of the random faults")
	flag.StringVar(&o.report, "report", "", "file for the report in Markdown; its plot goes beside it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	d, err := readDeployment(ctx, o.folder)
	if err != nil {
		return err
	}
	defer d.close()
	defer d.stop()
	if err := d.start(ctx); err != nil {
		return errors.Join(err, d.tails())
	}
	workers, err := newWorkers(ctx, o.workers)
	if err != nil {
		return err
	}
	offerers, err := newOfferers(o.offerers, workers)
	if err != nil {
		return err
	}
	l := &load{offerers: offerers, workers: workers, pace: o.pace, acked: map[string]acknowledged{}}
	var c *chaos
	if o.chaos > 0 {
		if c, err = newChaos(o.folder, d, l, o.seed); err != nil {
			return err
		}
	}
	began := time.Now()
	err = l.run(ctx, func(ctx context.Context) error {
		if c != nil {
			fmt.Fprintln(os.Stdout, "seed", o.seed)
			return c.run(ctx, o.chaos)
		}
		return inTurn(ctx, d, l, strings.FieldsFunc(o.kill, func(r rune) bool { return r == ',' }))
	})
	if err != nil {
		return errors.Join(err, d.tails())
	}
	out, err := l.audit(ctx)
	if err != nil {
		return errors.Join(err, d.tails())
	}
	fmt.Fprintln(os.Stdout, out)
	if o.report != "" && c != nil {
		if err := (report{out, c, began, o.seed}).write(o.report); err != nil {
			return err
		}
	}
	if err := out.err(); err != nil {
		return errors.Join(err, d.tails())
	}
	return nil
}

// newWorkers also starts the servers of A2A workers.
func newWorkers(ctx context.Context, list string) ([]worker, error) {
	var workers []worker
	for i, text := range strings.Split(list, ",") {
		kind, at, _ := strings.Cut(text, "=")
		a, err := agent.New(at)
		if err != nil {
			return nil, err
		}
		switch kind {
		case "rest":
			workers = append(workers, &restWorker{Agent: a, label: fmt.Sprintf("rest-worker-%d", i)})
		case "airc":
			workers = append(workers, &aircWorker{aircAgent: newAIRCAgent(a, fmt.Sprintf("worker_%d", i))})
		case "a2a":
			parts := strings.Split(at, "@")
			if len(parts) != 3 {
				return nil, fmt.Errorf("want a2a=DID@LISTEN@URL, not %q", text)
			}
			w := &a2aWorker{did: federation.DID(parts[0]), address: parts[2]}
			if err := w.serve(ctx, parts[1]); err != nil {
				return nil, err
			}
			workers = append(workers, w)
		default:
			return nil, fmt.Errorf("want rest=, airc= or a2a=, not %q", text)
		}
	}
	return workers, nil
}

func newOfferers(list string, workers []worker) ([]offerer, error) {
	var offerers []offerer
	for i, text := range strings.Split(list, ",") {
		kind, at, _ := strings.Cut(text, "=")
		server, home, ok := strings.Cut(at, "@")
		if !ok {
			home = at
		}
		a, err := agent.New(home)
		switch {
		case err != nil:
			return nil, err
		case kind == "rest":
			offerers = append(offerers, &restOfferer{Agent: a, label: fmt.Sprintf("rest-offerer-%d", i)})
		case kind == "airc":
			airc := newAIRCAgent(a, fmt.Sprintf("offerer_%d", i))
			offerers = append(offerers, &aircOfferer{aircAgent: airc, workers: workers, handles: map[federation.DID]string{}})
		case kind == "irc" && ok:
			offerers = append(offerers, &ircOfferer{Agent: a, nick: fmt.Sprintf("offerer%d", i), address: server, answers: map[string]chan string{}})
		default:
			return nil, fmt.Errorf("want rest=URL, airc=URL or irc=HOST:PORT@URL, not %q", text)
		}
	}
	return offerers, nil
}

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
