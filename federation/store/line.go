package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/handoffs"
)

type lineBody struct {
	Command string            `json:"command"`
	Source  string            `json:"source"`
	Text    string            `json:"text"`
	Account string            `json:"account,omitempty"`
	Proved  string            `json:"proved,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
}

// KeepLine files a line of chat, and returns its filing time. A line with the same ID at the place
// keeps its filing time.
func (s *Record) KeepLine(ctx context.Context, l federation.Line) (time.Time, error) {
	body, err := json.Marshal(lineBody{l.Command, l.Source, l.Text, l.Account, l.Proved, l.Tags})
	if err != nil {
		return time.Time{}, fmt.Errorf("file line %s: %w", l.ID, err)
	}
	var recipient any
	if l.To != "" {
		recipient = l.To
	}
	place := handoffs.PlaceKey(l.Place)
	at, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (at int64, err error) {
		filed, err := q.Exec(ctx, `INSERT INTO line (place, at, id, author, recipient, event, body) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (place, id) DO NOTHING`,
			place, engine.Stamp(l.Position.At), l.ID, l.Author, recipient, !l.IsText(), string(body))
		if err != nil || filed > 0 {
			return engine.Stamp(l.Position.At), err
		}
		err = q.Row(ctx, `SELECT at FROM line WHERE place = ? AND id = ?`, []any{place, l.ID}, &at)
		return at, err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("file line %s: %w", l.ID, err)
	}
	return engine.Moment(at), nil
}

// Lines returns up to limit lines of the queried part, oldest first.
func (s *Record) Lines(ctx context.Context, part federation.TimelineQuery, limit int) ([]federation.Line, error) {
	scan := func(row engine.Scanner) (federation.Line, error) {
		l := federation.Line{Place: part.Place}
		var at int64
		var body []byte
		if err := row.Scan(&l.Position.N, &at, &l.ID, &l.Author, &l.To, &body); err != nil {
			return l, err
		}
		l.Position.At = engine.Moment(at)
		var b lineBody
		if err := federation.DecodeJSON(body, &b); err != nil {
			return l, fmt.Errorf("line %d: %w", l.Position.N, err)
		}
		l.Command, l.Source, l.Text, l.Account, l.Proved, l.Tags = b.Command, b.Source, b.Text, b.Account, b.Proved, b.Tags
		return l, nil
	}
	order := `ORDER BY at, n`
	if part.Newest {
		order = `ORDER BY at DESC, n DESC`
	}
	end, endN := int64(math.MaxInt64), uint64(math.MaxInt64)
	if part.Before != (federation.Position{}) {
		end, endN = engine.Stamp(part.Before.At), part.Before.N
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT n, at, id, author, coalesce(recipient, ''), body FROM line
		WHERE place = ? AND (at, n) > (?, ?) AND (at, n) < (?, ?) AND event <= ? `+order+engine.AtMost,
		handoffs.PlaceKey(part.Place), engine.Stamp(part.After.At), part.After.N, end, endN, !part.TextOnly, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read chat of %s: %w", part.Place.Venue, err)
	}
	if part.Newest {
		slices.Reverse(found)
	}
	return found, nil
}

// LineMark returns the position of the line with the given ID at a place, or
// [federation.ErrNotFound].
func (s *Record) LineMark(ctx context.Context, p federation.ChannelRef, id string) (m federation.Position, err error) {
	var at int64
	err = s.db.Reads().Row(ctx, `SELECT at, n FROM line WHERE place = ? AND id = ?`, []any{handoffs.PlaceKey(p), id}, &at, &m.N)
	if err != nil {
		return m, fmt.Errorf("look up line in %s: %w", p.Venue, err)
	}
	m.At = engine.Moment(at)
	return m, nil
}

// LineVenues returns the venues of up to limit private conversations of a DID with lines since a
// time, newest first.
func (s *Record) LineVenues(ctx context.Context, did federation.DID, since time.Time, limit int) ([]string, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[string], `SELECT place FROM line
		WHERE author = ?1 AND at >= ?2 AND recipient IS NOT NULL OR recipient = ?1 AND at >= ?2 GROUP BY place ORDER BY max(at) DESC, place LIMIT 0 + ?3`, did, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("list conversations of %s: %w", did, err)
	}
	return found, nil
}

// PruneLines deletes up to limit lines sent at or before a given time, and returns their number.
func (s *Record) PruneLines(ctx context.Context, before time.Time, limit int) (int, error) {
	gone, err := engine.Written(ctx, s.db, func(ctx context.Context, q engine.Tx) (int64, error) {
		return q.Exec(ctx, `DELETE FROM line WHERE n IN (SELECT n FROM line WHERE at <= ? ORDER BY at`+engine.AtMost+`)`, engine.Stamp(before), max(limit, 0))
	})
	if err != nil {
		return 0, fmt.Errorf("prune chat: %w", err)
	}
	return int(gone), nil
}
