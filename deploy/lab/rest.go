package main

import (
	"context"
	"sync"

	"github.com/baton-gateway/baton/deploy/agent"
	"github.com/baton-gateway/baton/federation"
)

type restOfferer struct {
	*agent.Agent

	label string
}

func (o *restOfferer) name() string                   { return o.label }
func (o *restOfferer) join(ctx context.Context) error { return o.Hello(ctx) }

func (o *restOfferer) offer(ctx context.Context, to federation.DID, title string) (string, error) {
	var made agent.Handoff
	err := o.Insist(ctx, "handoffs", title, map[string]string{"to": string(to), "title": title}, &made)
	return made.ID, err
}

func (o *restOfferer) inbox(ctx context.Context) ([]step, error) { return inboxOf(ctx, o.Agent) }

func inboxOf(ctx context.Context, a *agent.Agent) ([]step, error) {
	entries, err := a.InboxWhole(ctx)
	var steps []step
	for _, e := range entries {
		steps = append(steps, stepOf(e))
	}
	return steps, err
}

func stepOf(e agent.Entry) step { return step{e.Step.HandoffID, e.Step.Verb, e.Step.Title} }

type restWorker struct {
	*agent.Agent
	seen arrivals

	label string
}

func (w *restWorker) name() string                                 { return w.label }
func (w *restWorker) identity() federation.DID                     { return w.DID }
func (w *restWorker) join(ctx context.Context) error               { return w.Hello(ctx) }
func (w *restWorker) arrivals() *arrivals                          { return &w.seen }
func (w *restWorker) received(ctx context.Context) ([]step, error) { return inboxOf(ctx, w.Agent) }

// Each offer is accepted and completed once.
func (w *restWorker) work(ctx context.Context) {
	cursor := ""
	var steps sync.WaitGroup
	defer steps.Wait()
	for ctx.Err() == nil {
		entries, next, err := w.Inbox(ctx, cursor)
		if err != nil {
			continue // ctx has ended, or the cursor is read again
		}
		cursor = next
		for _, e := range entries {
			if s := stepOf(e); s.verb == "offer" && w.seen.record(s) {
				steps.Go(func() { w.complete(ctx, s.handoff) })
			}
		}
	}
}

func (w *restWorker) complete(ctx context.Context, id string) {
	for _, verb := range []string{"accept", "complete"} {
		if err := w.Insist(ctx, "handoffs/"+id+"/"+verb, verb+" "+id, struct{}{}, nil); err != nil {
			w.seen.fail(id, err)
			return
		}
	}
}
