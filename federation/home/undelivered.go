package home

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// undeliveredNote tells the offerer why the home ended a handoff before its time.
const undeliveredNote = "not picked up in time"

// GiveUp ends the waiting of the entries that were filed at or before a time and still wait
// in an inbox, the oldest first. An offer that its offeree never saw expires, and its offerer
// is told. A later step waits no more, so that it does not fill an inbox that is not read any
// more; it stays there to be read, and in the log. GiveUp returns the steps that it filed, and
// whether there is more to end: then call it again.
func (h *Home) GiveUp(ctx context.Context, before, now time.Time) (filed []federation.Judgement, more bool, err error) {
	waiting, err := h.Overdue.Undelivered(ctx, before, sweepBatch)
	if err != nil {
		return nil, false, fmt.Errorf("look for what waits too long: %w", err)
	}
	for _, u := range waiting {
		if h.unseen(u) {
			judged, err := h.end(ctx, u.View, undeliveredNote, now)
			switch {
			case err == nil:
				filed = append(filed, judged)
			case !errors.Is(err, federation.ErrStale): // else it was answered in between
				return filed, false, fmt.Errorf("expire %s: %w", u.View.ID, err)
			}
		}
		if err := h.Overdue.Lapse(ctx, u.To, []federation.EventID{u.Entry.Event.ID}, now); err != nil {
			return filed, false, fmt.Errorf("end waiting of %s: %w", u.Entry.Event.ID, err)
		}
	}
	return filed, len(waiting) == sweepBatch, nil
}

// unseen reports whether an entry is an offer of this home that waits for its
// offeree alone.
func (h *Home) unseen(u federation.Undelivered) bool {
	return u.View.Home == h.ID && u.View.State == federation.Offered && u.To == u.View.Offeree && u.Entry.Event.ID == u.View.ID
}
