package federationtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"baton/federation"
)

// AddToken implements [OperatorTokens].
func (m *Memory) AddToken(ctx context.Context, t federation.OperatorToken) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.tokens = slices.DeleteFunc(m.tokens, func(on federation.OperatorToken) bool { return !on.Good(t.Created) })
	at, taken := m.tokenAt(t.Name)
	if taken {
		return federation.ErrTaken
	}
	m.tokens = slices.Insert(m.tokens, at, t)
	return nil
}

// tokenAt returns where a name is among the tokens, or belongs.
func (m *Memory) tokenAt(name string) (at int, found bool) {
	return slices.BinarySearchFunc(m.tokens, name, func(t federation.OperatorToken, name string) int { return cmp.Compare(t.Name, name) })
}

// RevokeToken implements [OperatorTokens].
func (m *Memory) RevokeToken(ctx context.Context, name string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	at, found := m.tokenAt(name)
	if !found {
		return federation.ErrNotFound
	}
	m.tokens = slices.Delete(m.tokens, at, at+1)
	return nil
}

// Token implements [OperatorTokens].
func (m *Memory) Token(ctx context.Context, digest [32]byte, now time.Time) (federation.OperatorToken, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.OperatorToken{}, err
	}
	for _, t := range m.tokens {
		if t.Digest == digest && t.Good(now) {
			return t, nil
		}
	}
	return federation.OperatorToken{}, federation.ErrNotFound
}

// Tokens implements [OperatorTokens].
func (m *Memory) Tokens(ctx context.Context, after string, limit int) ([]federation.OperatorToken, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var found []federation.OperatorToken
	for _, t := range m.tokens {
		if t.Name > after && len(found) < limit {
			found = append(found, t)
		}
	}
	return found, nil
}
