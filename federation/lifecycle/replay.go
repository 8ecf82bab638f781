package lifecycle

import (
	"errors"
	"fmt"
	"iter"

	"baton/federation"
)

// Replay returns the view after the last step of a log, the zero View for an empty log. With the same
// tables it equals the view that was filed with that step. The error is that of the log, or names the step
// that cannot follow its predecessor.
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

// Follow returns the view after a filed step, as the home of the handoff judged it. The error says why the
// step cannot follow.
func (k Kinds) Follow(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error) {
	switch exists := before.Exists(); {
	case exists && step.Event.Verb == federation.Offer:
		return before, errors.New("the handoff was open already")
	case exists:
		return k.Check(before, step.Event, step.Filed)
	}
	return k.Open(step.Event, home, step.Filed)
}
