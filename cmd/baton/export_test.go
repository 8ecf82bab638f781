package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

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
