package engine

import (
	"context"
	"slices"
)

// Question is a row that a write reads before it changes anything that the row depends on. On a server, the questions of
// a batch are sent together, which costs one round trip instead of one for each write.
type Question struct {
	Query    string
	Args     []any
	Dest     []any
	About    []string // the rows that the answer depends on, and that writes may change
	answered bool     // dest has the row already
}

// Answer reads the row, unless it was prefetched. A prefetched row serves once: when the
// write is repeated, the row may be another one.
func (a *Question) Answer(ctx context.Context, q Tx) error {
	if a.answered {
		a.answered = false
		return nil
	}
	return q.Row(ctx, a.Query, a.Args, a.Dest...)
}

// prefetch answers the questions of the writes whose rows no other write of the batch
// changes, and returns the batch with these writes first. The other writes may change
// anything.
func prefetch(ctx context.Context, on *pipeline, batch []*item) ([]*item, error) {
	independent, others := independentOf(batch)
	if len(independent) == 0 {
		return batch, nil
	}
	for _, it := range independent {
		for _, asked := range it.asks {
			if err := on.ask(asked); err != nil {
				return nil, err
			}
		}
	}
	return slices.Concat(independent, others), Failure(on.send(ctx))
}

// independentOf splits a batch into writes whose questions depend on different rows, and the
// other writes.
func independentOf(batch []*item) (independent, others []*item) {
	taken := map[string]bool{}
	for _, it := range batch {
		var about []string
		for _, asked := range it.asks {
			about = append(about, asked.About...)
		}
		if len(about) == 0 || slices.ContainsFunc(about, func(what string) bool { return taken[what] }) {
			others = append(others, it)
			continue
		}
		for _, what := range about {
			taken[what] = true
		}
		independent = append(independent, it)
	}
	return independent, others
}
