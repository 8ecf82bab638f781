package federationtest

import (
	"context"
	"time"

	"baton/federation"
)

// OperatorTokens keeps operator tokens. Its promises are in [Store].
type OperatorTokens interface {
	// AddToken keeps a token, and deletes the tokens that had expired when it was made. It
	// returns [federation.ErrTaken] for a name that another token has.
	AddToken(ctx context.Context, t federation.OperatorToken) error
	// RevokeToken forgets a token. It returns [federation.ErrNotFound] for a name that none has.
	RevokeToken(ctx context.Context, name string) error
	// Token finds a token by its digest. It returns [federation.ErrNotFound] for one that was never
	// made, was revoked, or is not good at a time.
	Token(ctx context.Context, digest [32]byte, now time.Time) (federation.OperatorToken, error)
	// Tokens returns up to limit tokens, expired ones too, by name, after a name or from the
	// start with "".
	Tokens(ctx context.Context, after string, limit int) ([]federation.OperatorToken, error)
}
