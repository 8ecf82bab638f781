package store

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// question is the row that a write reads before anything else. On a server, the questions of
// a batch are sent together, which costs one round trip instead of one for each write.
type question struct {
	query    string
	args     []any
	dest     []any
	about    []string // the rows that the answer depends on, and that the write may change
	answered bool     // dest has the row already
}

// answer reads the row, unless it was prefetched. A prefetched row serves once: when the
// write is repeated, the row may be another one.
func (a *question) answer(ctx context.Context, q *statements) error {
	if a.answered {
		a.answered = false
		return nil
	}
	return q.row(ctx, a.query, a.args, a.dest...)
}

// prefetch answers the questions of the writes whose rows no other write of the batch
// changes, and returns the batch with these writes first. The other writes may change
// anything.
func prefetch(ctx context.Context, on *pipeline, batch []*item) ([]*item, error) {
	independent, others := independentOf(batch)
	if len(independent) == 0 {
		return batch, nil
	}
	var asked pgx.Batch
	for _, it := range independent {
		values, err := inPostgres.values(it.asks.args)
		if err != nil {
			return nil, err
		}
		asked.Queue(inPostgres.say(it.asks.query), values...).QueryRow(func(row pgx.Row) error {
			err := row.Scan(it.asks.dest...)
			it.asks.answered = err == nil
			return err
		})
	}
	err := on.with(func(conn *pgx.Conn) error { return conn.SendBatch(ctx, &asked).Close() })
	return slices.Concat(independent, others), failure(err)
}

// independentOf splits a batch into writes whose questions depend on different rows, and the
// other writes.
func independentOf(batch []*item) (independent, others []*item) {
	about := map[string]bool{}
	for _, it := range batch {
		if it.asks == nil || slices.ContainsFunc(it.asks.about, func(what string) bool { return about[what] }) {
			others = append(others, it)
			continue
		}
		for _, what := range it.asks.about {
			about[what] = true
		}
		independent = append(independent, it)
	}
	return independent, others
}
