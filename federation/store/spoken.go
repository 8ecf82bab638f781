package store

import (
	"context"
	"fmt"
	"math"
	"slices"

	"baton/federation"
)

// placeKey returns a place as it is kept: its venue, after the link and a space where
// that is the only one.
func placeKey(p federation.Place) string {
	if p.Link == "" || federation.Private(p.Venue) {
		return p.Venue
	}
	return p.Link + " " + p.Venue
}

// Spoken implements [federationtest.Spoken].
func (s *Record) Spoken(ctx context.Context, part federation.Stretch, limit int) ([]federation.Said, error) {
	scan := func(row scanner) (said federation.Said, err error) {
		var e entryScan
		var at int64
		var view []byte
		if err := row.Scan(append(e.dest(), &at, &said.Mark.N, &view)...); err != nil {
			return said, err
		}
		said.Mark.At = moment(at)
		if said.Entry, err = e.read(); err != nil {
			return said, err
		}
		said.View, err = decodeView(view)
		return said, err
	}
	order := `ORDER BY e.said, e.seq`
	if part.Newest {
		order = `ORDER BY e.said DESC, e.seq DESC`
	}
	end, endN := int64(math.MaxInt64), uint64(math.MaxInt64)
	if part.Before != (federation.Mark{}) {
		end, endN = stamp(part.Before.At), part.Before.N
	}
	found, err := rows(ctx, s.reads, scan, `SELECT `+entryColumns+`, e.said, e.seq, h.view FROM event e JOIN handoff h ON h.id = e.handoff
		WHERE e.place = ? AND (e.said, e.seq) > (?, ?) AND (e.said, e.seq) < (?, ?) `+order+atMost,
		placeKey(part.Place), stamp(part.After.At), part.After.N, end, endN, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read history of %s: %w", part.Place.Venue, err)
	}
	if part.Newest {
		slices.Reverse(found)
	}
	return found, nil
}

// Mark implements [federationtest.Spoken]. The place is compared in a way that no index
// helps with: ids are few at a time, and steps at a place are many.
func (s *Record) Mark(ctx context.Context, p federation.Place, id string) (federation.Mark, error) {
	var m federation.Mark
	var at int64
	err := s.reads.row(ctx, `SELECT said, seq FROM event WHERE (id = ?1 OR message = ?1) AND version > 0 AND coalesce(place, '') = ?2
		ORDER BY id = ?1 DESC, seq LIMIT 1`, []any{id, placeKey(p)}, &at, &m.N)
	if err != nil {
		return m, fmt.Errorf("look up message in %s: %w", p.Venue, err)
	}
	m.At = moment(at)
	return m, nil
}
