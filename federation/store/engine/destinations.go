package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/baton-gateway/baton/federation"
)

// Only rows of webhooks are ever deleted, so other numbers stay valid for all replicas.
type destinations struct {
	mu   sync.Mutex
	kept map[string]int64
}

// Destination returns the number of a destination of deliveries, or 0 for none.
func (s *DB) Destination(ctx context.Context, name string) (int64, error) {
	s.destinations.mu.Lock()
	n, known := s.destinations.kept[name]
	s.destinations.mu.Unlock()
	if known {
		return n, nil
	}
	var kind federation.DestinationKind
	err := s.Reads().Row(ctx, `SELECT n, kind FROM destination WHERE name = ?`, []any{name}, &n, &kind)
	if errors.Is(err, federation.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up destination %s: %w", name, err)
	}
	if kind == federation.ToWebhook {
		return n, nil
	}
	s.destinations.mu.Lock()
	defer s.destinations.mu.Unlock()
	if s.destinations.kept == nil || len(s.destinations.kept) >= maxRemembered {
		s.destinations.kept = map[string]int64{}
	}
	s.destinations.kept[name] = n
	return n, nil
}

// InternDestination returns the number of a destination and assigns one if it has none.
func InternDestination(ctx context.Context, q Tx, kind federation.DestinationKind, name string) (n int64, err error) {
	err = q.Row(ctx, `SELECT n FROM destination WHERE name = ?`, []any{name}, &n)
	if errors.Is(err, federation.ErrNotFound) {
		err = q.Row(ctx, `INSERT INTO destination (name, kind) VALUES (?, ?) RETURNING n`, []any{name, string(kind)}, &n)
	}
	if err != nil {
		return 0, fmt.Errorf("number destination %s: %w", name, err)
	}
	return n, nil
}
