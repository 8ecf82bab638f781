package handoffs

import (
	"context"
	"fmt"
	"math"
	"slices"

	"baton/federation"
	"baton/federation/store/engine"
)

// PlaceKey returns a place as it is kept: its venue, after the link and a space where
// that is the only one.
func PlaceKey(p federation.Place) string {
	if p.Link == "" || federation.Private(p.Venue) {
		return p.Venue
	}
	return p.Link + " " + p.Venue
}

// Spoken returns up to limit steps of a stretch, oldest first. Receipts are none.
func (s *Logs) Spoken(ctx context.Context, part federation.Stretch, limit int) ([]federation.Said, error) {
	scan := func(row engine.Scanner) (said federation.Said, err error) {
		var e EntryScan
		var at int64
		var view []byte
		if err := row.Scan(append(e.Dest(), &at, &said.Mark.N, &view)...); err != nil {
			return said, err
		}
		said.Mark.At = engine.Moment(at)
		if said.Entry, err = e.Read(); err != nil {
			return said, err
		}
		said.View, err = DecodeView(view)
		return said, err
	}
	order := `ORDER BY e.said, e.seq`
	if part.Newest {
		order = `ORDER BY e.said DESC, e.seq DESC`
	}
	end, endN := int64(math.MaxInt64), uint64(math.MaxInt64)
	if part.Before != (federation.Mark{}) {
		end, endN = engine.Stamp(part.Before.At), part.Before.N
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT `+EntryColumns+`, e.said, e.seq, h.view FROM event e JOIN handoff h ON h.id = e.handoff
		WHERE e.place = ? AND (e.said, e.seq) > (?, ?) AND (e.said, e.seq) < (?, ?) `+order+engine.AtMost,
		PlaceKey(part.Place), engine.Stamp(part.After.At), part.After.N, end, endN, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read history of %s: %w", part.Place.Venue, err)
	}
	if part.Newest {
		slices.Reverse(found)
	}
	return found, nil
}

// Mark returns the mark of the step at a place with an event ID, or else of the step in the
// message with that id. It returns [federation.ErrNotFound] if the place has neither. The
// place is compared in a way that no index helps with: ids are few at a time, and steps at a
// place are many.
func (s *Logs) Mark(ctx context.Context, p federation.Place, id string) (federation.Mark, error) {
	var m federation.Mark
	var at int64
	err := s.db.Reads().Row(ctx, `SELECT said, seq FROM event WHERE (id = ?1 OR message = ?1) AND version > 0 AND coalesce(place, '') = ?2
		ORDER BY id = ?1 DESC, seq LIMIT 1`, []any{id, PlaceKey(p)}, &at, &m.N)
	if err != nil {
		return m, fmt.Errorf("look up message in %s: %w", p.Venue, err)
	}
	m.At = engine.Moment(at)
	return m, nil
}
