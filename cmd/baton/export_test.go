package main

import (
	"context"
	"time"

	"baton/configs"
	"baton/federation"
)

// Main is the program, for the tests that run it as a process.
func Main() { main() }

// Prune takes from a record what is older than a configuration keeps it.
func Prune(ctx context.Context, record federation.Retention, keep configs.Retention, now time.Time) (handoffs, messages, ids int, err error) {
	gone, err := prune(ctx, record, keep, now)
	return gone.handoffs, gone.messages, gone.ids, err
}
