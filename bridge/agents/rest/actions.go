package rest

import (
	"context"
	"fmt"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

// No handoff of a page may match the assignee, so the number of pages is bounded.
const maxPages = 32

// spec: freeq §5.1
func (l *Link) listActions(ctx context.Context, p contract.ActionQuery) (contract.Actions, error) {
	answer := contract.Actions{Tasks: []contract.Action{}}
	want := federation.Filter{State: federation.State(p.State), Kind: federation.Kind(p.Kind)}
	if p.Assignee != "" {
		if _, err := federation.ParseDID(p.Assignee); err != nil {
			return answer, usage("assignee: " + err.Error())
		}
		want.DIDs = []federation.DID{federation.DID(p.Assignee)}
	}
	var after federation.Cursor
	for range maxPages {
		views, next, err := l.access.Page(ctx, callerOf(ctx).Caller, want, true, after, p.Limit-len(answer.Tasks))
		if err != nil {
			return answer, err
		}
		for _, v := range views {
			if p.Assignee == "" || string(v.Assignee) == p.Assignee {
				answer.Tasks = append(answer.Tasks, l.shapeAction(v))
			}
		}
		if after = next; next == "" || len(answer.Tasks) >= p.Limit {
			break
		}
	}
	return answer, nil
}

func (l *Link) shapeAction(v federation.View) contract.Action {
	a := contract.Action{
		ActID: v.ID.String(), Kind: string(v.Kind), Venue: v.Venue, State: string(v.State), StoredState: string(v.State),
		Offerer: string(v.Offerer), Offeree: named(string(v.Offeree)), Assignee: named(string(v.Assignee)), Caps: v.Caps,
		Replaces: named(v.Replaces.String()), Updated: v.Moved.Unix(),
	}
	if a.Caps == nil {
		a.Caps = []string{}
	}
	if v.Home != l.deps.Home {
		a.Origin = string(v.Home)
	}
	if !v.Deadline.IsZero() {
		a.Deadline = new(v.Deadline.Unix())
	}
	return a
}

func named(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// spec: freeq §5.1
func (l *Link) getAction(ctx context.Context, req contract.ByID) (contract.ActionLog, error) {
	view, err := l.access.Find(ctx, callerOf(ctx).Caller, req.ID)
	if err != nil {
		return contract.ActionLog{}, err
	}
	answer := contract.ActionLog{ActID: view.ID.String(), Venue: view.Venue, Events: []contract.ActionEvent{}}
	if !view.Over {
		answer.Task = new(l.shapeAction(view))
	}
	for entry, err := range l.access.Log(ctx, view.ID, 0) {
		if err != nil {
			return contract.ActionLog{}, fmt.Errorf("read log: %w", err)
		}
		answer.Events = append(answer.Events, shapeActionEvent(entry.Event, named("confirmed"))) // the log of a home contains only confirmed steps
	}
	receipts, err := l.deps.Record.Receipts(ctx, view.ID)
	if err != nil {
		return contract.ActionLog{}, fmt.Errorf("read receipts: %w", err)
	}
	for _, receipt := range receipts {
		answer.Events = append(answer.Events, shapeActionEvent(receipt, nil))
	}
	return answer, nil
}

func shapeActionEvent(ev federation.Event, confirmed *string) contract.ActionEvent {
	return contract.ActionEvent{
		EventID: ev.ID.String(), Canonical: ev.Signature.Document, Signature: ev.Signature.Text, ActorDID: string(ev.From), Venue: ev.Venue,
		ConfirmState: confirmed, Timestamp: ev.Time().Unix(),
	}
}
