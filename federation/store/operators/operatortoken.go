package operators

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

const admittedColumns = `name, scope, digest, created, expires`

func scanToken(row engine.Scanner) (federation.OperatorToken, error) {
	var t federation.OperatorToken
	var digest []byte
	var created, expires int64
	err := row.Scan(&t.Name, &t.Scope, &digest, &created, &expires)
	if err == nil && copy(t.Digest[:], digest) != len(t.Digest) {
		err = errors.New("a digest is cut short")
	}
	t.Created, t.Expires = engine.Moment(created), engine.Moment(expires)
	return t, err
}

// AddToken keeps a token, and deletes the tokens that had expired when it was made. It returns
// [federation.ErrTaken] for a name that another token has.
func (s *Operators) AddToken(ctx context.Context, t federation.OperatorToken) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		if err := q.Put(ctx, `DELETE FROM operator_token WHERE expires <= ?`, engine.Stamp(t.Created)); err != nil {
			return err
		}
		n, err := q.Exec(ctx, `INSERT INTO operator_token (`+admittedColumns+`) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
			t.Name, t.Scope, t.Digest[:], engine.Stamp(t.Created), engine.Stamp(t.Expires))
		if err == nil && n == 0 {
			return federation.ErrTaken
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("add token %s: %w", t.Name, err)
	}
	return nil
}

// RevokeToken forgets a token. It returns [federation.ErrNotFound] for a name that none has.
func (s *Operators) RevokeToken(ctx context.Context, name string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		n, err := q.Exec(ctx, `DELETE FROM operator_token WHERE name = ?`, name)
		if err == nil && n == 0 {
			return federation.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", name, err)
	}
	return nil
}

// Token finds a token by its digest. It returns [federation.ErrNotFound] for an unknown
// or a revoked token, and for one that is not valid at the time.
func (s *Operators) Token(ctx context.Context, digest [32]byte, now time.Time) (federation.OperatorToken, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanToken, `SELECT `+admittedColumns+` FROM operator_token WHERE digest = ? AND expires > ?`,
		digest[:], engine.Stamp(now))
	if err == nil && len(found) == 0 {
		err = federation.ErrNotFound
	}
	if err != nil {
		return federation.OperatorToken{}, fmt.Errorf("look up token: %w", err)
	}
	return found[0], nil
}

// Tokens returns up to limit tokens, expired ones too, by name, after a name or from the start
// with "".
func (s *Operators) Tokens(ctx context.Context, after string, limit int) ([]federation.OperatorToken, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanToken, `SELECT `+admittedColumns+` FROM operator_token WHERE name > ? ORDER BY name`+engine.AtMost,
		after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	return found, nil
}
