package a2aclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/a2atask"
)

// A message without a response may still become a task for this long. Then the agent is queried.
const settleTime = 3 * time.Second

// Deliver implements [bridge.Link]. It returns nil only after the ID of the task is on disk.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	t := l.taskOf(d.View.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	err := l.load(ctx, t)
	if err == nil && (d.View.Over || l.claimedElsewhere(d.View)) {
		err = l.close(ctx, t, d.View)
	} else if err == nil && d.Entry.Event.Verb == federation.Offer {
		err = l.offer(ctx, t, d)
	}
	if t.length == 0 {
		l.forget(t)
	}
	if err != nil {
		return err
	}
	if err := l.deps.Record.ExpireUnread(ctx, cmp.Or(d.View.Offeree, l.did), []federation.EventID{d.Entry.Event.ID}, time.Now()); err != nil {
		return fmt.Errorf("expire unread inbox entry: %w", err)
	}
	return nil
}

// offer sends the message of an offer, unless the agent already has it.
func (l *Link) offer(ctx context.Context, t *task, d federation.Delivery) error {
	if why := l.excludes(d.Entry.Event, d.View); why != "" {
		return federation.Refuse(d.Entry.Event, federation.PolicyDenied, why)
	}
	if t.inDoubt() {
		if err := l.find(ctx, t, d.Entry.Event); err != nil {
			return err
		}
	}
	if t.id != "" || t.answer != nil {
		l.start(t)
		return nil
	}
	open := d.View.State == federation.Open
	if open && !l.reserve(t.handoff) {
		return l.away(errors.New("it has another open offer"))
	}
	m, losses := a2atask.Offer(d.Entry.Event, d.View, l.passport(d.View.ID))
	l.report(ctx, t, losses)
	if err := l.write(ctx, t, note{Kind: noteSending, Open: open}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	none := 0
	answer, err := l.client.Load().SendMessage(ctx, &wire.SendMessageRequest{
		Message: m, Config: &wire.SendMessageConfig{ReturnImmediately: true, HistoryLength: &none},
	})
	keeping := context.WithoutCancel(ctx) // the response must not be lost
	if err == nil {
		err = l.keep(keeping, t, answer)
	} else if unsent, reported := l.sendError(d.Entry.Event, err); unsent {
		err = errors.Join(reported, l.write(keeping, t, note{Kind: noteUnsent}))
	} else {
		err = reported
	}
	if err == nil {
		l.start(t)
	}
	return err
}

func (l *Link) passport(id federation.HandoffID) string {
	return l.ports.PublicURL + "/api/v1/handoffs/" + id.String() + "/passport"
}

func (l *Link) keep(ctx context.Context, t *task, answer wire.SendMessageResult) error {
	switch a := answer.(type) {
	case *wire.Task:
		if a.ID == "" {
			return errors.New("the agent answered with a task without an ID")
		}
		return l.write(ctx, t, note{Kind: noteTask, Task: a.ID, Context: a.ContextID})
	case *wire.Message:
		text, err := encoded(a)
		if err != nil {
			return err
		}
		return l.write(ctx, t, note{Kind: noteMessage, Message: text})
	}
	return fmt.Errorf("the agent answered with %T", answer)
}

// find lists the agent's tasks after a lost response. If the agent does not list tasks, an operator decides
// whether to resend the message.
func (l *Link) find(ctx context.Context, t *task, ev federation.Event) error {
	if wait := time.Until(t.sending.Add(settleTime)); wait > 0 {
		return &federation.UnavailableError{What: "the task of an unanswered message", RetryAfter: wait, Err: errors.New("it may still be made")}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := l.client.Load().ListTasks(ctx, &wire.ListTasksRequest{ContextID: t.handoff.String(), PageSize: 10})
	switch {
	case cannotList(err):
		why := "the agent did not answer the message, may have made a task of it, and does not list tasks. " +
			"Replay this delivery to send the message again with the same ID, after the agent's operator has looked"
		if err := l.write(ctx, t, note{Kind: noteUnknown}); err != nil {
			return err
		}
		return &federation.DeadLetterError{Reason: federation.DeadFailed, Why: why}
	case err != nil:
		_, reported := l.sendError(ev, err)
		return reported
	}
	own := slices.DeleteFunc(found.Tasks, func(each *wire.Task) bool {
		return each == nil || each.ID == "" || each.ContextID != t.handoff.String()
	})
	if len(own) == 0 {
		return l.write(ctx, t, note{Kind: noteUnsent})
	}
	first := own[len(own)-1] // the list is newest first
	l.log.LogAttrs(ctx, slog.LevelInfo, "task found", slog.String("handoff_id", t.handoff.String()), slog.String("task", string(first.ID)))
	return l.write(ctx, t, note{Kind: noteTask, Task: first.ID, Context: first.ContextID})
}

func (l *Link) close(ctx context.Context, t *task, view federation.View) error {
	if t.length == 0 {
		return nil
	}
	if t.inDoubt() {
		err := l.find(ctx, t, federation.Event{ID: t.handoff, Handoff: t.handoff, Verb: federation.Cancel})
		if givenUp, ok := errors.AsType[*federation.DeadLetterError](err); ok {
			return errors.Join(givenUp, l.remove(ctx, t))
		}
		if err != nil {
			return err
		}
	}
	if t.id != "" && !t.ended {
		if err := l.cancel(ctx, t, view); err != nil {
			return err
		}
	}
	t.ended = true
	t.look()
	return l.remove(ctx, t)
}

func (l *Link) cancel(ctx context.Context, t *task, view federation.View) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := l.client.Load().CancelTask(ctx, &wire.CancelTaskRequest{ID: t.id, Metadata: map[string]any{"reason": string(view.State)}})
	switch {
	case err == nil:
		l.count(taskCanceled)
		return nil
	case isAny(err, wire.ErrTaskNotFound, wire.ErrTaskNotCancelable):
		return nil
	case isAny(err, refusals()...):
		l.log.LogAttrs(ctx, slog.LevelWarn, "task not cancelled", slog.String("handoff_id", t.handoff.String()), slog.String("task", string(t.id)), slog.Any("err", err))
		return nil
	}
	if isNetwork(err) {
		return l.away(err)
	}
	return fmt.Errorf("cancel task %s: %w", t.id, err)
}

// report logs omitted content, all of which is in the record.
func (l *Link) report(ctx context.Context, t *task, losses []federation.Loss) {
	for _, loss := range losses {
		l.log.LogAttrs(ctx, slog.LevelInfo, "content not carried", slog.String("handoff_id", t.handoff.String()),
			slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
	}
}
