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

// Prune takes from a record what is older than a configuration keeps it.
func Prune(ctx context.Context, record federation.Record, keep configs.Retention, now time.Time) (handoffs, messages, ids int, err error) {
	gone, err := prune(ctx, record, keep, now)
	return gone.handoffs, gone.messages, gone.ids, err
}

// Judge assembles the gateway of a configuration, of which nothing runs, and returns how
// it takes a step, and how it ends.
func Judge(ctx context.Context, path string) (submit func(context.Context, federation.Event) error, end func() error, err error) {
	file, err := configs.Load(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := assemble(ctx, file, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	links, err := openLinks(file, p.wiring())
	if err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	var all []*running
	for _, o := range links {
		all = append(all, &running{opened: o, supervisor: bridge.NewSupervisor(o.link, p.record, p.relay, p.counters, p.log)})
	}
	p.gateway.fleet.current.Store(newRoll(all))
	return func(ctx context.Context, ev federation.Event) error {
		_, err := p.gateway.Submit(ctx, ev)
		return err
	}, p.close, nil
}
