package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/baton-gateway/baton/federation"
)

// A committed row is never deleted, so its number stays valid for all replicas.
type actors struct {
	mu   sync.Mutex
	kept map[federation.DID]actor
}

type actor struct {
	n      int64
	signed bool // it signed a filed event
}

func (a *actors) find(did federation.DID) (actor, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.kept[did]
	return found, ok
}

func (a *actors) remember(did federation.DID, found actor) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil || len(a.kept) >= maxRemembered {
		a.kept = map[federation.DID]actor{}
	}
	a.kept[did] = found
}

func (a *actors) forget(did federation.DID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, did)
}

// Actor returns the number of a DID, or 0 for none.
func (s *DB) Actor(ctx context.Context, did federation.DID) (int64, error) {
	found, err := s.actor(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return 0, nil
	}
	return found.n, err
}

func (s *DB) actor(ctx context.Context, did federation.DID) (actor, error) {
	if known, ok := s.actors.find(did); ok {
		return known, nil
	}
	var found actor
	err := s.Reads().Row(ctx, `SELECT n, signed FROM actor WHERE did = ?`, []any{did}, &found.n, &found.signed)
	if errors.Is(err, federation.ErrNotFound) {
		return actor{}, err
	}
	if err != nil {
		return actor{}, fmt.Errorf("look up %s: %w", did, err)
	}
	s.actors.remember(did, found)
	return found, nil
}

// Intern returns the number of a DID and assigns one if it has none. The number of a new DID is
// valid only in this transaction; later transactions look it up again.
func Intern(ctx context.Context, q Tx, did federation.DID) (n int64, err error) {
	err = q.Row(ctx, `SELECT n FROM actor WHERE did = ?`, []any{did}, &n)
	if errors.Is(err, federation.ErrNotFound) {
		err = q.Row(ctx, `INSERT INTO actor (did) VALUES (?) RETURNING n`, []any{did}, &n)
	}
	if err != nil {
		return 0, fmt.Errorf("number %s: %w", did, err)
	}
	return n, nil
}

// Signed records, in the transaction that files an event, that its signer has signed an event. Only
// the first event of a DID causes a write.
func (s *DB) Signed(ctx context.Context, q Tx, did federation.DID) error {
	if known, ok := s.actors.find(did); ok && known.signed {
		return nil
	}
	q.Then(func() { s.actors.forget(did) })
	return q.Put(ctx, `UPDATE actor SET signed = 1 WHERE did = ? AND signed = 0`, did)
}
