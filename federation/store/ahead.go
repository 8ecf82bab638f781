package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"baton/federation"
)

// question is what a write asks of the record before anything else: one row. Over a
// network those of a batch are asked together, and so cost one answer instead of one for
// each.
type question struct {
	query    string
	args     []any
	dest     []any
	about    []string // what the answer depends on, and the write may change
	answered bool
}

// answer reads the row, unless that was done ahead.
func (a *question) answer(ctx context.Context, q *statements) error {
	if a.answered {
		a.answered = false // a second time it may be another one
		return nil
	}
	return q.row(ctx, a.query, a.args, a.dest...)
}

// ahead parts a batch into writes that ask first, and about different things, and others.
func ahead(batch []*item) (asking, others []*item) {
	about := map[string]bool{}
	for _, it := range batch {
		if it.asks == nil || slices.ContainsFunc(it.asks.about, func(what string) bool { return about[what] }) {
			others = append(others, it)
			continue
		}
		for _, what := range it.asks.about {
			about[what] = true
		}
		asking = append(asking, it)
	}
	return asking, others
}

// applyAhead makes the writes of a batch that ask first, and returns the rest: their
// questions are sent together, and so is what they write. Where one of them fails in
// another way than by its own decision, all are among the rest, and nothing was done.
func (c *committer) applyAhead(ctx context.Context, batch []*item) (rest []*item, err error) {
	asking, others := ahead(batch)
	if len(asking) < 2 {
		return batch, nil
	}
	if _, err := c.pen.exec(ctx, "SAVEPOINT batch"); err != nil {
		return nil, fmt.Errorf("set savepoint: %w", err)
	}
	err = c.applyTogether(ctx, asking)
	if _, away := errors.AsType[*federation.UnavailableError](err); err == nil || away {
		return others, err
	}
	c.pen.forget()
	if _, err := c.pen.exec(ctx, "ROLLBACK TO batch"); err != nil {
		return nil, fmt.Errorf("undo writes: %w", err)
	}
	for _, it := range asking {
		it.asks.answered = false // others of the batch may come before it now
	}
	return batch, nil
}

// applyTogether returns an error where not every write has its own answer.
func (c *committer) applyTogether(ctx context.Context, batch []*item) error {
	questions := make([]*question, len(batch))
	for i, it := range batch {
		questions[i] = it.asks
	}
	if err := c.pen.later.ask(ctx, questions); err != nil {
		return failure(err)
	}
	for _, it := range batch {
		before := c.pen.later.begin()
		if it.err = it.apply(ctx, c.pen.statements); it.err != nil && !c.pen.later.takeBack(before) {
			return it.err
		}
	}
	return c.pen.flush(ctx)
}
