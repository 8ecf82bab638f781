package lifecycle

import (
	"fmt"
	"iter"

	"baton/federation"
)

// Replay returns what a log says: the view after its last step, the zero View for
// an empty log. It is the view that was filed with that step, as long as the tables
// are those that the steps were judged by. The error is that of the log, or says
// which step cannot follow the one before.
func (k Kinds) Replay(home federation.HomeID, log iter.Seq2[federation.Entry, error]) (federation.View, error) {
	var v federation.View
	for entry, err := range log {
		if err != nil {
			return v, err
		}
		if v.Exists() {
			v, err = k.Check(v, entry.Event, entry.Filed)
		} else {
			v, err = k.Open(entry.Event, home, entry.Filed)
		}
		if err != nil {
			return v, fmt.Errorf("replay step %s: %w", entry.Event.ID, err)
		}
	}
	return v, nil
}
