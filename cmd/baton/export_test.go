package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi"
	"baton/configs"
	"baton/federation"
)

// Run is the program, for the tests that run it as a process: it writes its log and
// its errors where they say.
func Run(errs io.Writer) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], std{out: os.Stdout, err: errs}))
}

// Drain waits for the work of a gateway to end, after it was told to.
func Drain(ctx context.Context, ended <-chan error) error {
	return (&program{log: slog.New(slog.DiscardHandler)}).drain(ctx, ended)
}

// Prune takes from a record what is older than a configuration keeps it.
func Prune(ctx context.Context, record pruner, keep configs.Retention, now time.Time) (handoffs, messages, ids int, err error) {
	gone, err := prune(ctx, record, keep, now)
	return gone.handoffs, gone.messages, gone.ids, err
}

// Still is a gateway of which nothing runs: it does what it is told to.
type Still struct{ p *program }

// Assemble returns the gateway of a configuration.
func Assemble(ctx context.Context, path string) (Still, error) {
	file, err := configs.Load(path)
	if err != nil {
		return Still{}, err
	}
	p, err := assemble(ctx, file, slog.New(slog.DiscardHandler))
	if err != nil {
		return Still{}, err
	}
	links, err := openLinks(file, p.wiring())
	if err != nil {
		return Still{}, errors.Join(err, p.close())
	}
	var all []*running
	for _, o := range links {
		all = append(all, &running{opened: o, supervisor: bridge.NewSupervisor(o.link, p.record, p.relay, p.counters, p.log)})
	}
	p.gateway.fleet.current.Store(newRoll(all))
	return Still{p}, nil
}

// Submit takes a step.
func (s Still) Submit(ctx context.Context, ev federation.Event) error {
	_, err := s.p.gateway.Submit(ctx, ev)
	return err
}

// FetchKey does what a link does before it submits a step.
func (s Still) FetchKey(ctx context.Context, ev federation.Event) { s.p.gateway.FetchKey(ctx, ev) }

// Watch looks which deliveries take long.
func (s Still) Watch(ctx context.Context, now time.Time) error { return s.p.watchOnce(ctx, now) }

// Untold returns whom the people of a link are to be told of.
func (s Still) Untold(ctx context.Context, link string, now time.Time) ([]federation.Notice, error) {
	return s.p.record.Untold(ctx, link, now, noticePage)
}

// Close ends the gateway.
func (s Still) Close() error { return s.p.close() }

// Tally counts senders.
type Tally struct{ tally }

// Note counts one step that was judged.
func (t *Tally) Note(ev federation.Event, verdict federation.Verdict, err error, now time.Time) {
	t.note(ev, verdict, err, now)
}

// Top returns the senders with the most steps.
func (t *Tally) Top(by string, since time.Duration, limit int, now time.Time) []operatorapi.Sender {
	return t.top(by, since, limit, now)
}
