package handoffs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// View returns the zero View for a handoff without a log here.
func (s *Logs) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	var text []byte
	err := s.db.Reads().Row(ctx, `SELECT view FROM handoff WHERE id = ?`, []any{id.String()}, &text)
	if errors.Is(err, federation.ErrNotFound) {
		return federation.View{}, nil
	}
	if err != nil {
		return federation.View{}, fmt.Errorf("read view of %s: %w", id, err)
	}
	return DecodeView(text)
}

// ScanView reads a row of one view.
func ScanView(row engine.Scanner) (federation.View, error) {
	var text []byte
	if err := row.Scan(&text); err != nil {
		return federation.View{}, err
	}
	return DecodeView(text)
}

// Due returns up to limit handoffs on which a clock has been running since a time or longer,
// those first that it runs on longest. It is read in the order of its index, and no further than
// to the limit.
func (s *Logs) Due(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error) {
	due, err := engine.Rows(ctx, s.db.Reads(), ScanView, `SELECT view FROM handoff
		WHERE clock = ? AND clock <> '' AND since <= ? ORDER BY since, id`+engine.AtMost, clock, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("look for overdue handoffs: %w", err)
	}
	return due, nil
}

// ScanHandoffID reads a row of one id.
func ScanHandoffID(row engine.Scanner) (id federation.HandoffID, err error) {
	var text []byte
	err = row.Scan(&text)
	return id, errors.Join(err, id.UnmarshalText(text))
}
