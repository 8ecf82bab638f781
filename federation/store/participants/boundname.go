package participants

import (
	"context"
	"errors"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

const boundNameColumns = `network, name, did, vouch, since`

func scanBoundName(row engine.Scanner) (federation.BoundName, error) {
	var b federation.BoundName
	var since int64
	err := row.Scan(&b.Network, &b.Name, &b.DID, &b.Vouch, &since)
	b.Since = engine.Moment(since)
	return b, err
}

// BindName keeps a binding. It returns [federation.ErrTaken] for a name bound to another DID.
// Binding a name to its DID again changes only Vouch.
func (s *Participants) BindName(ctx context.Context, b federation.BoundName) error {
	err := s.changeNames(ctx, func(ctx context.Context, q engine.Tx) error {
		var kept int
		err := q.Row(ctx, `INSERT INTO bound_name (`+boundNameColumns+`) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (network, name) DO UPDATE SET vouch = excluded.vouch WHERE bound_name.did = excluded.did RETURNING 1`,
			[]any{b.Network, b.Name, b.DID, b.Vouch, engine.Stamp(b.Since)}, &kept)
		if errors.Is(err, federation.ErrNotFound) {
			return federation.ErrTaken
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("bind %s on %s: %w", b.Name, b.Network, err)
	}
	return nil
}

// UnbindName returns [federation.ErrNotFound] for an unbound name.
func (s *Participants) UnbindName(ctx context.Context, network, name string) error {
	err := s.changeNames(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `DELETE FROM bound_name WHERE network = ? AND name = ?`, network, name)
		if err == nil && n == 0 {
			return federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("unbind %s on %s: %w", name, network, err)
	}
	return nil
}

// boundKey is the name of a binding.
type boundKey struct{ network, name string }

// BoundName returns [federation.ErrNotFound] for an unbound name.
func (s *Participants) BoundName(ctx context.Context, network, name string) (federation.BoundName, error) {
	return s.bound.Find(boundKey{network, name}, func() (federation.BoundName, error) {
		found, err := engine.Rows(ctx, s.db.Reads(), scanBoundName, `SELECT `+boundNameColumns+` FROM bound_name
			WHERE network = ? AND name = ?`, network, name)
		if err == nil && len(found) == 0 {
			err = federation.ErrNotFound
		}
		if err != nil {
			return federation.BoundName{}, fmt.Errorf("look up %s on %s: %w", name, network, err)
		}
		return found[0], nil
	})
}

// BoundNames returns up to limit bindings that come after a name, which may be none, in the
// order of networks and names.
func (s *Participants) BoundNames(ctx context.Context, network, name string, limit int) ([]federation.BoundName, error) {
	bound, err := engine.Rows(ctx, s.db.Reads(), scanBoundName, `SELECT `+boundNameColumns+` FROM bound_name
		WHERE (network, name) > (?, ?) ORDER BY network, name`+engine.AtMost, network, name, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read bound names: %w", err)
	}
	return bound, nil
}

// NamesOf returns the bindings of a DID, in the same order.
func (s *Participants) NamesOf(ctx context.Context, did federation.DID) ([]federation.BoundName, error) {
	return s.boundTo.Find(did, func() ([]federation.BoundName, error) {
		bound, err := engine.Rows(ctx, s.db.Reads(), scanBoundName, `SELECT `+boundNameColumns+` FROM bound_name
			WHERE did = ? ORDER BY network, name`, did)
		if err != nil {
			return nil, fmt.Errorf("read names of %s: %w", did, err)
		}
		return bound, nil
	})
}

// changeNames changes bound names, which are cached. It goes on to its end when the
// caller leaves: a caller that caches them too must forget them after the change, not before.
func (s *Participants) changeNames(ctx context.Context, apply func(context.Context, engine.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.db.Write(context.WithoutCancel(ctx), func(ctx context.Context, q engine.Tx) error {
		q.Then(s.bound.ForgetAll)
		q.Then(s.boundTo.ForgetAll)
		return apply(ctx, q)
	})
}
