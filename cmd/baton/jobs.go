package main

import (
	"context"
	"sync"

	"baton/bridge/gateway"
)

// tidy does what is due by the clock while that is this gateway's, until ctx ends.
func (p *program) tidy(ctx context.Context) {
	_ = p.record.Alone(ctx, gateway.ClockLease, func(ctx context.Context) { // ends with ctx, and says nothing else
		var group sync.WaitGroup
		for _, each := range []func(context.Context){p.sweep, p.retain, p.judgeAgain, p.watchFeeds} {
			group.Go(func() { each(ctx) })
		}
		group.Wait()
	})
}

// meet reads what other homes send through the hub, while that is this gateway's.
func (p *program) meet(ctx context.Context) {
	_ = p.record.Alone(ctx, gateway.HomesLease, func(ctx context.Context) { p.hub.Run(ctx, p.homes.door(), p.homes.peers) }) // likewise
}

// post calls the addresses that agents named, while that is this gateway's.
func (p *program) post(ctx context.Context) {
	_ = p.record.Alone(ctx, gateway.WebhookLease, p.hooks.Run) // likewise
}
