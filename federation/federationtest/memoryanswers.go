package federationtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"baton/federation"
)

// answerKey names an answer.
type answerKey struct {
	did federation.DID
	key string
}

// Reserve implements [Answers].
func (m *Memory) Reserve(ctx context.Context, a federation.Answer) (federation.Answer, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.Answer{}, err
	}
	key := answerKey{a.DID, a.Key}
	if _, there := m.answers[key]; !there {
		m.answers[key] = a
	}
	return m.answers[key], nil
}

// Answered implements [Answers].
func (m *Memory) Answered(ctx context.Context, a federation.Answer) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err == nil {
		m.answers[answerKey{a.DID, a.Key}] = a
	}
	return err
}

// PruneAnswers implements [Answers].
func (m *Memory) PruneAnswers(ctx context.Context, before time.Time, limit int) (int, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	var old []federation.Answer
	for _, a := range m.answers {
		if !a.At.After(before) {
			old = append(old, a)
		}
	}
	slices.SortFunc(old, func(a, b federation.Answer) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Key, b.Key)) })
	old = old[:min(len(old), max(limit, 0))]
	for _, a := range old {
		delete(m.answers, answerKey{a.DID, a.Key})
	}
	return len(old), nil
}

// Declare implements [Declarations].
func (m *Memory) Declare(ctx context.Context, did federation.DID, caps []string, _ time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err == nil {
		m.declared[did] = slices.Clone(caps)
	}
	return err
}

// Declaration implements [Declarations].
func (m *Memory) Declaration(ctx context.Context, did federation.DID) ([]string, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return slices.Clone(m.declared[did]), err
}
