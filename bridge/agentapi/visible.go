package agentapi

import (
	"context"
	"fmt"
	"slices"

	"baton/federation"
)

// visible reports whether a handoff is shown to a caller.
func (l *Link) visible(ctx context.Context, who caller, v federation.View) (bool, error) {
	switch {
	case who.operator:
		return true, nil
	case who.did == "":
		return false, nil
	case slices.ContainsFunc(v.Others(""), func(party federation.DID) bool { return l.deps.Gateway.Same(ctx, who.did, party) }):
		return true, nil
	case !federation.Private(v.Venue) && l.deps.Venues.Present(ctx, v.Venue, who.did):
		return true, nil
	}
	return l.asksFor(ctx, who.did, v)
}

// asksFor reports whether an open offer asks for what a DID declared that it can do:
// so it is for it, as it would be if it named it.
func (l *Link) asksFor(ctx context.Context, did federation.DID, v federation.View) (bool, error) {
	if v.State != federation.Open || len(v.Caps) == 0 {
		return false, nil
	}
	declared, err := l.deps.Skills.Declared(ctx, did)
	if err != nil {
		return false, fmt.Errorf("look up skills of %s: %w", did, err)
	}
	return !slices.ContainsFunc(v.Caps, func(c string) bool { return !slices.Contains(declared, c) }), nil
}

// find returns a handoff that the caller may see.
func (l *Link) find(ctx context.Context, text string) (federation.View, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.View{}, usage("id: " + err.Error())
	}
	view, err := l.deps.Gateway.View(ctx, id)
	if err != nil {
		return federation.View{}, fmt.Errorf("read handoff %s: %w", id, err)
	}
	if !view.Exists() {
		return federation.View{}, errNone()
	}
	shown, err := l.visible(ctx, callerOf(ctx), view)
	if err == nil && !shown {
		err = errNone()
	}
	return view, err
}
