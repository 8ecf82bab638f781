package lifecycle

import (
	"slices"
	"time"

	"baton/federation"
)

// moved returns a view with the clock and the finality that follow from its state.
func (k Kinds) moved(v federation.View, filed time.Time) federation.View {
	v.Moved = filed
	v.Over = slices.Contains(k.tables[v.Kind].Over, v.State)
	v.Clock, v.Since = "", time.Time{}
	w, waits := k.wait(v)
	switch {
	case !waits:
	case w.Clock == federation.UnansweredClock && !v.Deadline.IsZero():
		v.Clock, v.Since = federation.DeadlineClock, v.Deadline
	default:
		v.Clock, v.Since = w.Clock, filed
	}
	return v
}

// Then returns the step that the home takes when the clock of a handoff ran out, "" for none.
func (k Kinds) Then(v federation.View) federation.Verb {
	w, _ := k.wait(v)
	return w.Then
}

func (k Kinds) wait(v federation.View) (wait, bool) {
	waits := k.tables[v.Kind].Waits
	i := slices.IndexFunc(waits, func(w wait) bool { return slices.Contains(w.In, v.State) })
	if i < 0 {
		return wait{}, false
	}
	return waits[i], true
}
