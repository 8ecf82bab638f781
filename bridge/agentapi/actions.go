package agentapi

import (
	"cmp"
	"context"
	"fmt"

	"baton/bridge/agentapi/contract"
	"baton/federation"
)

// actionsLimit is how many handoffs a list of actions has that names no limit.
//
// spec: freeq §5.1
const actionsLimit = 100

// maxPages bounds how many pages are read for one list of actions: each of them may have all its
// handoffs with another assignee.
const maxPages = 32

// ListActions implements [contract.StrictServerInterface]: it lists the open handoffs in
// the shape of freeq servers.
//
// spec: freeq §5.1
func (l *Link) ListActions(ctx context.Context, req contract.ListActionsRequestObject) (contract.ListActionsResponseObject, error) {
	p, limit := req.Params, cmp.Or(req.Params.Limit, actionsLimit)
	want := federation.Filter{State: federation.State(p.State), Kind: federation.Kind(p.Kind)}
	if p.Assignee != "" {
		if _, err := federation.ParseDID(p.Assignee); err != nil {
			return nil, usage("assignee: " + err.Error())
		}
		want.DID = federation.DID(p.Assignee)
	}
	answer := contract.Actions{Tasks: []contract.Action{}}
	var after federation.Cursor
	for range maxPages {
		views, next, err := l.access.Page(ctx, callerOf(ctx).Caller, want, true, after, limit-len(answer.Tasks))
		if err != nil {
			return nil, err
		}
		for _, v := range views {
			if p.Assignee == "" || string(v.Assignee) == p.Assignee {
				answer.Tasks = append(answer.Tasks, l.shapeAction(v))
			}
		}
		if after = next; next == "" || len(answer.Tasks) >= limit {
			break
		}
	}
	return contract.ListActions200JSONResponse(answer), nil
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

// named returns nil for what is not there.
func named(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// GetAction implements [contract.StrictServerInterface]. A step of the other dialect is
// shown as it was signed there.
//
// spec: freeq §5.1
func (l *Link) GetAction(ctx context.Context, req contract.GetActionRequestObject) (contract.GetActionResponseObject, error) {
	view, err := l.access.Find(ctx, callerOf(ctx).Caller, req.ID)
	if err != nil {
		return nil, err
	}
	answer := contract.ActionLog{ActID: view.ID.String(), Venue: view.Venue, Events: []contract.ActionEvent{}}
	if !view.Over {
		answer.Task = new(l.shapeAction(view))
	}
	for entry, err := range l.access.Log(ctx, view.ID, 0) {
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		answer.Events = append(answer.Events, shapeActionEvent(entry.Event, named("confirmed"))) // nothing else is in the log of a home
	}
	receipts, err := l.deps.Handoffs.Receipts(ctx, view.ID)
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	for _, receipt := range receipts {
		answer.Events = append(answer.Events, shapeActionEvent(receipt, nil))
	}
	return contract.GetAction200JSONResponse(answer), nil
}

func shapeActionEvent(ev federation.Event, confirmed *string) contract.ActionEvent {
	return contract.ActionEvent{
		EventID: ev.ID.String(), Canonical: ev.Signature.Document, Signature: ev.Signature.Text, ActorDID: string(ev.From), Venue: ev.Venue,
		ConfirmState: confirmed, Timestamp: ev.Time().Unix(),
	}
}
