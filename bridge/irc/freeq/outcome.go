package freeq

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"baton/federation"
)

// inquire asks whether a home has refused a step, and gives the step up where it has.
func (s *session) inquire(ctx context.Context, p *pendingRuling, now time.Time) {
	code, detail := s.link.outcome(ctx, p, now)
	if code != "" {
		if err := s.link.deps.Rulings.GiveUp(s.Submitting, p.held, code, detail); err != nil { //nolint:contextcheck // it outlives the connection
			s.log.LogAttrs(ctx, slog.LevelError, "refused step not given up", slog.Any("err", err))
		}
	}
	s.Post(ctx, func() { p.asking = false })
}

// action is what the web API of a server returns for one handoff.
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

// outcome returns why a step counts as refused, "" while its home may still confirm it. A
// home does not report refusals: it merely has no such event.
func (l *Link) outcome(ctx context.Context, p *pendingRuling, now time.Time) (code federation.RefusalCode, detail string) {
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
	return "", "" // confirmed, and the receipt comes with the next route; or not judged yet
}

// overdue decides by the clock alone, where a server does not show its events: an answer
// after the deadline counts as refused.
func (l *Link) overdue(p *pendingRuling, now time.Time) (code federation.RefusalCode, detail string) {
	due, verb := p.view.Deadline, p.held.Event.Verb
	if !due.IsZero() && (verb == federation.Accept || verb == federation.Claim) && now.After(due.Add(lastRoute)) {
		return federation.DeadlinePassed, "its home did not confirm it in time"
	}
	return "", ""
}
