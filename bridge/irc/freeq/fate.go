package freeq

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"baton/federation"
)

// inquire finds out whether a home has refused a step, and gives it up if so.
func (s *session) inquire(ctx context.Context, p *petition, now time.Time) {
	code, detail := s.link.fate(ctx, p, now)
	if code != "" {
		if err := s.link.deps.Rulings.GiveUp(s.Submitting, p.held, code, detail); err != nil { //nolint:contextcheck // it outlives the connection
			s.log.LogAttrs(ctx, slog.LevelError, "refused step not given up", slog.Any("err", err))
		}
	}
	s.Post(ctx, func() { p.asking = false })
}

// action is what a server tells of one handoff.
//
// spec: freeq-rest "Actions"
type action struct {
	Events []actionEvent `json:"events"`
}

type actionEvent struct {
	EventID   string  `json:"event_id"`
	State     *string `json:"confirm_state"` // null of a receipt
	Canonical string  `json:"canonical"`
	Signature string  `json:"signature"`
	Actor     string  `json:"actor_did"`
	Venue     string  `json:"venue"`
	Timestamp int64   `json:"timestamp"` // unix seconds of receipt
}

// fate returns why a step is as good as refused, "" while its home may still confirm
// it. A home says nothing about what it refuses: it merely has no such event.
func (l *Link) fate(ctx context.Context, p *petition, now time.Time) (code federation.RefusalCode, detail string) {
	ev := p.held.Event
	if now.Sub(p.held.Since) > maxWait {
		return federation.IllegalStep, "its home said nothing for " + maxWait.String()
	}
	var told action
	err := l.ask(ctx, actionsPath.Join(ev.Handoff.String()), nil, &told)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.UnknownHandoff, "its home does not know the handoff any more"
	case err != nil:
		return l.overdue(p, now)
	}
	i := slices.IndexFunc(told.Events, func(e actionEvent) bool { return e.EventID == ev.ID.String() })
	switch {
	case len(told.Events) == 0:
		return "", ""
	case i < 0:
		return federation.IllegalStep, "its home did not take it"
	case told.Events[i].State != nil && *told.Events[i].State == "superseded":
		return federation.IllegalStep, "its home took another step first"
	}
	return "", "" // confirmed, and the receipt comes with the next route; or not yet
}

// overdue tells by the clock alone, where a server shows nobody what became of a
// step: an answer that is late is one that it did not take.
func (l *Link) overdue(p *petition, now time.Time) (code federation.RefusalCode, detail string) {
	due, verb := p.view.Deadline, p.held.Event.Verb
	if !due.IsZero() && (verb == federation.Accept || verb == federation.Claim) && now.After(due.Add(lastRoute)) {
		return federation.DeadlinePassed, "its home did not confirm it in time"
	}
	return "", ""
}
