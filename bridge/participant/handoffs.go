package participant

import (
	"context"
	"fmt"
	"iter"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/translate"
)

// StateOpen is the state of a [Query] for all handoffs that are not over.
const StateOpen = "open"

// maxLooks bounds how often the record is asked for one page: each time it looks at
// a bounded number of handoffs, which may all be others than those wanted.
const maxLooks = 32

// Query says which handoffs a list has. A Query that names no DID and no channel, and asks for no
// claimable handoffs, is for the handoffs of the caller.
type Query struct {
	DID        string
	State      string // of a handoff, [StateOpen], or "" for any
	Kind       string
	Capability string
	Channel    string
	Claimable  bool // open offers, which any caller may claim
	Since      time.Time
}

// filter parses a query.
func (q Query) filter(caller federation.DID) (federation.Filter, bool, error) {
	unfinished := false
	f := federation.Filter{
		DID: federation.DID(q.DID), State: federation.State(q.State), Kind: federation.Kind(q.Kind), Capability: q.Capability, Since: q.Since,
	}
	if q.DID != "" {
		if _, err := federation.ParseDID(q.DID); err != nil {
			return f, false, bridge.UsageProblem("did: " + err.Error())
		}
	}
	if q.State == StateOpen {
		f.State, unfinished = "", true
	}
	if q.Channel != "" {
		venue, ok := translate.Channel(q.Channel)
		if !ok {
			return f, false, bridge.UsageProblem(fmt.Sprintf("channel: %q is none", q.Channel))
		}
		f.Venue = venue
	}
	if q.Claimable {
		if q.State != "" && q.State != StateOpen {
			return f, false, bridge.UsageProblem("claimable: what anyone may claim is in no other state")
		}
		f.State, unfinished = federation.Open, false
	}
	if q.DID == "" && q.Channel == "" && !q.Claimable {
		f.DID = caller
	}
	return f, unfinished, nil
}

// List returns up to limit handoffs that a query admits and the caller may see, the newest
// movement first, from after a cursor on, and the cursor to go on from: "" after the last.
func (a *Access) List(ctx context.Context, who Caller, q Query, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error) {
	f, unfinished, err := q.filter(who.DID)
	if err != nil {
		return nil, "", err
	}
	return a.Page(ctx, who, f, unfinished, after, limit)
}

// Page is List for a filter of the record. With unfinished it leaves out handoffs that are over.
func (a *Access) Page(
	ctx context.Context, who Caller, f federation.Filter, unfinished bool, after federation.Cursor, limit int,
) ([]federation.View, federation.Cursor, error) {
	var views []federation.View
	for range maxLooks {
		more, next, err := a.deps.Handoffs.Handoffs(ctx, f, after, limit-len(views))
		if err != nil {
			return nil, "", fmt.Errorf("list handoffs: %w", err)
		}
		for _, v := range more {
			shown := !unfinished || !v.Over
			if shown {
				if shown, err = a.visible(ctx, who, v); err != nil {
					return nil, "", err
				}
			}
			if shown {
				views = append(views, v)
			}
		}
		if after = next; next == "" || len(views) >= limit {
			break
		}
	}
	return views, after, nil
}

// Log yields the steps of a handoff after a version in order; after 0 are all. The caller has found
// it with [Access.Find].
func (a *Access) Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error] {
	return a.deps.Handoffs.Log(ctx, id, after)
}

// Passport returns the passport of a handoff that the caller may see, as it was signed.
func (a *Access) Passport(ctx context.Context, who Caller, id string) (bridge.Document, error) {
	view, err := a.Find(ctx, who, id)
	if err != nil {
		return bridge.Document{}, err
	}
	return a.deps.Passports.Passport(ctx, view, time.Now())
}
