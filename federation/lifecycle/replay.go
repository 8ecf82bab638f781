package lifecycle

import (
	"errors"
	"fmt"
	"iter"

	"baton/federation"
)

// Replay returns the view after the last step of a log, the zero View for an empty log. It
// equals the view that was filed with that step, as long as the tables are the same as then.
// The error is the error of the log, or names the step that cannot follow the one before.
func (k Kinds) Replay(home federation.HomeID, log iter.Seq2[federation.Entry, error]) (federation.View, error) {
	var v federation.View
	for entry, err := range log {
		if err != nil {
			return v, err
		}
		if v, err = k.Follow(v, entry, home); err != nil {
			return v, fmt.Errorf("replay step %s: %w", entry.Event.ID, err)
		}
	}
	return v, nil
}

// Follow returns the view after a filed step, as the home with the handoff saw it. The error says
// why the step cannot follow.
func (k Kinds) Follow(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error) {
	switch exists := before.Exists(); {
	case exists && step.Event.Verb == federation.Offer:
		return before, errors.New("the handoff was open already")
	case exists:
		return k.Check(before, step.Event, step.Filed)
	}
	return k.Open(step.Event, home, step.Filed)
}
