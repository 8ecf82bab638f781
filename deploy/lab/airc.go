package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/aircagent"
	"github.com/baton-gateway/baton/deploy/agent"
	"github.com/baton-gateway/baton/federation"
)

// aircAgent is an agent of an AIRC registry. It proves the same key over REST, so that the audit
// can read its handoffs at its home.
type aircAgent struct {
	*agent.Agent

	handle   string
	registry *aircagent.Agent
}

func newAIRCAgent(home *agent.Agent, handle string) *aircAgent {
	return &aircAgent{home, handle, aircagent.WithKey(home.URL(), handle, home.Key)}
}

func (a *aircAgent) insist(ctx context.Context, request func(context.Context) error) error {
	var last error
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, agent.AskTime)
		err := request(bounded)
		if refused, ok := errors.AsType[*aircagent.StatusError](err); ok && refused.Status == http.StatusUnauthorized {
			err = errors.Join(errors.New("the token has ended"), a.registry.Register(bounded))
		}
		cancel()
		if refused, ok := errors.AsType[*aircagent.StatusError](err); err == nil || ok && refused.Status != http.StatusTooManyRequests && refused.Status < http.StatusInternalServerError {
			return err
		}
		last = err
		if err := wait(ctx, agent.RetryWait); err != nil {
			break
		}
	}
	return errors.Join(ctx.Err(), last)
}

// send signs a message and posts it until the registry accepts it. The same bytes count once. The
// handoff is "" if the registry had already accepted them.
func (a *aircAgent) send(ctx context.Context, to, body, kind string, data map[string]any) (id, handoff string, err error) {
	message, err := a.registry.Sign(to, body, map[string]any{"type": kind, "data": data})
	if err != nil {
		return "", "", err
	}
	err = a.insist(ctx, func(ctx context.Context) (err error) {
		handoff, err = a.registry.Post(ctx, message)
		return err
	})
	if refused, ok := errors.AsType[*aircagent.StatusError](err); ok && strings.Contains(refused.Text, "same bytes") {
		err = nil
	}
	id, _ = message["id"].(string)
	return id, handoff, err
}

func aircStep(m aircagent.Message) step {
	h := m.Payload.Data.Handoff
	return step{h.ID, h.Event, h.Title}
}

func (a *aircAgent) messages(ctx context.Context, cursor string) (found []aircagent.Message, next string, err error) {
	err = a.insist(ctx, func(ctx context.Context) (err error) {
		found, next, err = a.registry.InboxAfter(ctx, cursor, 2*time.Second)
		return err
	})
	return found, next, err
}

func (a *aircAgent) allMessages(ctx context.Context) ([]aircagent.Message, error) {
	var all []aircagent.Message
	for cursor := ""; ; {
		messages, next, err := a.messages(ctx, cursor)
		if err != nil || len(messages) == 0 {
			return all, err
		}
		all, cursor = append(all, messages...), next
	}
}

func (a *aircAgent) allSteps(ctx context.Context) ([]step, error) {
	messages, err := a.allMessages(ctx)
	var steps []step
	for _, m := range messages {
		steps = append(steps, aircStep(m))
	}
	return steps, err
}

func (a *aircAgent) joinRegistry(ctx context.Context) error {
	if err := a.registry.Register(ctx); err != nil {
		return fmt.Errorf("register %s: %w", a.handle, err)
	}
	return a.Hello(ctx)
}

type aircOfferer struct {
	*aircAgent

	handles map[federation.DID]string // complete before offers are made
	workers []worker
}

func (o *aircOfferer) name() string                              { return o.handle }
func (o *aircOfferer) inbox(ctx context.Context) ([]step, error) { return o.allSteps(ctx) }

// join registers the agent, and learns each worker's handle from its answer to a first offer. The
// registry knows a remote agent only after one of its steps.
func (o *aircOfferer) join(ctx context.Context) error {
	if err := o.joinRegistry(ctx); err != nil {
		return err
	}
	for _, w := range o.workers {
		var first agent.Handoff
		err := o.Insist(ctx, "handoffs", "first "+string(w.identity()), map[string]string{"to": string(w.identity()), "title": "first"}, &first)
		if err != nil {
			return err
		}
		answer, err := o.await(ctx, func(m aircagent.Message) bool { return m.Payload.Data.Handoff.ID == first.ID })
		if err != nil {
			return fmt.Errorf("handle of %s: %w", w.name(), err)
		}
		o.handles[w.identity()] = answer.From
	}
	return nil
}

func (o *aircOfferer) await(ctx context.Context, sought func(aircagent.Message) bool) (aircagent.Message, error) {
	for {
		messages, err := o.allMessages(ctx)
		if err != nil {
			return aircagent.Message{}, err
		}
		if at := slices.IndexFunc(messages, sought); at >= 0 {
			return messages[at], nil
		}
		if err := wait(ctx, time.Second); err != nil {
			return aircagent.Message{}, err
		}
	}
}

func (o *aircOfferer) offer(ctx context.Context, to federation.DID, title string) (string, error) {
	id, handoff, err := o.send(ctx, o.handles[to], title, "task:request", map[string]any{"description": title})
	if err != nil || handoff != "" {
		return handoff, err
	}
	// The registry accepted the message, but its answer was lost. The accept names the handoff.
	answer, err := o.await(ctx, func(m aircagent.Message) bool { return m.Payload.Data.ReplyTo == id })
	return answer.Payload.Data.Handoff.ID, err
}

type aircWorker struct {
	*aircAgent

	seen arrivals
}

func (w *aircWorker) name() string                                 { return w.handle }
func (w *aircWorker) identity() federation.DID                     { return w.DID }
func (w *aircWorker) join(ctx context.Context) error               { return w.joinRegistry(ctx) }
func (w *aircWorker) arrivals() *arrivals                          { return &w.seen }
func (w *aircWorker) received(ctx context.Context) ([]step, error) { return w.allSteps(ctx) }

// Each offer is accepted and completed once.
func (w *aircWorker) work(ctx context.Context) {
	cursor := ""
	var steps sync.WaitGroup
	defer steps.Wait()
	for ctx.Err() == nil {
		messages, next, err := w.messages(ctx, cursor)
		if err != nil {
			continue // ctx has ended, or the cursor is read again
		}
		cursor = next
		for _, m := range messages {
			if s := aircStep(m); s.verb == "offer" && w.seen.record(s) {
				steps.Go(func() { w.complete(ctx, m) })
			}
		}
	}
}

func (w *aircWorker) complete(ctx context.Context, offer aircagent.Message) {
	_, _, err := w.send(ctx, offer.From, "on it", "ack", map[string]any{"replyTo": offer.ID, "status": "received"})
	if err == nil {
		_, _, err = w.send(ctx, offer.From, "done", "task:result", map[string]any{"requestId": offer.ID, "status": "completed", "result": map[string]any{"note": "done"}})
	}
	if err != nil {
		w.seen.fail(aircStep(offer).handoff, err)
	}
}
