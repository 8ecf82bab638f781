package engine

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// A pipeline sends statements to a server without waiting for each result. Only one goroutine may
// use it.
type pipeline struct {
	conn   *sql.Conn
	queued pgx.Batch
}

func newPipeline(conn *sql.Conn) *pipeline { return &pipeline{conn: conn} }

// Waits for the end of every other writing transaction on the same schema, and is released with its
// own transaction. Later queries see all their commits. The number is "Btn1".
const lockWriters = `SELECT pg_advisory_xact_lock(1114926641, hashtext(current_schema()))`

// The commit is sent with the statements queued by then. Its error is errHalfDone if one of them
// failed.
func (p *pipeline) begin(ctx context.Context) transaction {
	p.forget() // from the previous transaction
	p.queue("BEGIN", nil)
	p.queue(lockWriters, nil)
	return transaction{
		commit: func() error {
			p.queued.Queue("COMMIT").Exec(committed)
			return orHalfDone(Failure(p.send(ctx)))
		},
		rollback: func() error {
			p.forget()
			p.queue("ROLLBACK", nil)
			return p.send(ctx)
		},
	}
}

// A server rolls back if one of the statements had failed.
func committed(end pgconn.CommandTag) error {
	if end.String() != "COMMIT" {
		return fmt.Errorf("the server answered %s", end)
	}
	return nil
}

func (p *pipeline) queue(query string, args []any) { p.queued.Queue(InPostgres.rebind(query), args...) }

func (p *pipeline) ask(q *Question) error {
	values, err := InPostgres.values(q.Args)
	if err != nil {
		return err
	}
	p.queued.Queue(InPostgres.rebind(q.Query), values...).QueryRow(func(row pgx.Row) error {
		err := row.Scan(q.Dest...)
		q.answered = err == nil
		return err
	})
	return nil
}

func (p *pipeline) forget() { p.queued = pgx.Batch{} }

// Waits for all answers. It returns the error of the first failed statement; the server skips the
// following ones.
func (p *pipeline) send(ctx context.Context) error {
	if p.queued.Len() == 0 {
		return nil
	}
	batch := p.queued
	p.forget()
	return p.with(func(conn *pgx.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
}

// failed reports whether the transaction of the connection accepts no more statements.
//
// spec: PostgreSQL "ReadyForQuery"
func (p *pipeline) failed() bool {
	const inFailedTransaction = 'E'
	failed := true
	err := p.with(func(conn *pgx.Conn) error {
		failed = conn.IsClosed() || conn.PgConn().TxStatus() == inFailedTransaction
		return nil
	})
	return failed || err != nil
}

func (p *pipeline) with(do func(*pgx.Conn) error) error {
	return p.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the driver is %T", driver)
		}
		return do(conn.Conn())
	})
}

// Question is a row that a write reads before its changes. On a server, the questions of a batch
// are sent together, in one round trip instead of one per write.
type Question struct {
	Query    string
	Args     []any
	Dest     []any
	About    []string // keys of the changeable rows that determine the answer
	answered bool     // dest already has the row
}

// Answer reads the row, unless it was prefetched. A prefetched row is used once, because the row
// may differ if the write is repeated.
func (a *Question) Answer(ctx context.Context, q Tx) error {
	if a.answered {
		a.answered = false
		return nil
	}
	return q.Row(ctx, a.Query, a.Args, a.Dest...)
}

// Answers the questions of the writes whose rows no other write of the batch changes, and returns
// the batch with these writes first. The other writes may change anything.
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

// The questions of independent writes depend on different rows.
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
