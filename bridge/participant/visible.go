package participant

import (
	"context"
	"fmt"
	"slices"

	"baton/bridge"
	"baton/federation"
)

// visible reports whether a handoff is shown to a caller.
func (a *Access) visible(ctx context.Context, who Caller, v federation.View) (bool, error) {
	switch {
	case who.Operator:
		return true, nil
	case who.DID == "":
		return false, nil
	case slices.ContainsFunc(v.Others(""), func(party federation.DID) bool { return a.deps.Gateway.Same(ctx, who.DID, party) }):
		return true, nil
	case !federation.Private(v.Venue) && a.deps.Venues.Present(ctx, v.Venue, who.DID):
		return true, nil
	}
	return a.asksFor(ctx, who.DID, v)
}

// asksFor reports whether an open offer asks for capabilities that a DID declared: then the DID
// may see it like an offer that names it.
func (a *Access) asksFor(ctx context.Context, did federation.DID, v federation.View) (bool, error) {
	if v.State != federation.Open || len(v.Caps) == 0 {
		return false, nil
	}
	declared, err := a.deps.Skills.Declared(ctx, did)
	if err != nil {
		return false, fmt.Errorf("look up skills of %s: %w", did, err)
	}
	return !slices.ContainsFunc(v.Caps, func(c string) bool { return !slices.Contains(declared, c) }), nil
}

// Find returns a handoff that the caller may see. A handoff that the caller may not see is
// refused like one that does not exist.
func (a *Access) Find(ctx context.Context, who Caller, text string) (federation.View, error) {
	return a.find(ctx, who, text, func(v federation.View) federation.View { return v })
}

// findFor returns a handoff in which the caller may take a step. A late claim gets the handoff if
// the caller could see it while it was open, because its home names the winner.
func (a *Access) findFor(ctx context.Context, who Caller, text string, verb federation.Verb) (federation.View, error) {
	return a.find(ctx, who, text, func(v federation.View) federation.View {
		if verb == federation.Claim && v.Offeree == "" {
			v.State = federation.Open
		}
		return v
	})
}

// find returns a handoff that the caller may see in the state that shown returns.
func (a *Access) find(ctx context.Context, who Caller, text string, shown func(federation.View) federation.View) (federation.View, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.View{}, bridge.UsageProblem("id: " + err.Error())
	}
	view, err := a.deps.Gateway.View(ctx, id)
	if err != nil {
		return federation.View{}, fmt.Errorf("read handoff %s: %w", id, err)
	}
	if !view.Exists() {
		return federation.View{}, errNone()
	}
	visible, err := a.visible(ctx, who, shown(view))
	if err == nil && !visible {
		err = errNone()
	}
	return view, err
}
