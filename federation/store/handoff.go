package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// View implements [federationtest.Store].
func (s *Record) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	var text []byte
	err := s.reads.row(ctx, `SELECT view FROM handoff WHERE id = ?`, []any{id.String()}, &text)
	if errors.Is(err, federation.ErrNotFound) {
		return federation.View{}, nil
	}
	if err != nil {
		return federation.View{}, fmt.Errorf("read view of %s: %w", id, err)
	}
	return decodeView(text)
}

func scanView(row scanner) (federation.View, error) {
	var text []byte
	if err := row.Scan(&text); err != nil {
		return federation.View{}, err
	}
	return decodeView(text)
}

// Due implements [federationtest.Store]. It is read in the order of its index, and no
// further than to the limit.
func (s *Record) Due(ctx context.Context, clock federation.Clock, since time.Time, limit int) ([]federation.View, error) {
	due, err := rows(ctx, s.reads, scanView, `SELECT view FROM handoff
		WHERE clock = ? AND clock <> '' AND since <= ? ORDER BY since, id`+atMost, clock, stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("look for overdue handoffs: %w", err)
	}
	return due, nil
}

// Unfinished implements [federationtest.Store].
func (s *Record) Unfinished(ctx context.Context, offerer federation.DID) (int, error) {
	var n int
	err := s.reads.row(ctx, `SELECT count(*) FROM handoff
		WHERE offerer = ? AND over = 0`, []any{offerer}, &n)
	if err != nil {
		return 0, fmt.Errorf("count handoffs of %s: %w", offerer, err)
	}
	return n, nil
}
