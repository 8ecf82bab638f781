package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// later are statements that nobody waits for. They are sent to a server together, which
// costs one answer instead of one for each. It is for one goroutine.
type later struct {
	conn  *sql.Conn
	batch pgx.Batch
	put   int // statements, ever
	sent  int // batches of them
	done  int // statements that somebody waited for, and that may change something
}

func (l *later) queue(query string, args []any) {
	l.put++
	l.batch.Queue(query, args...)
}

// mark is how far things had got before a write.
type mark struct{ put, sent, done, queued int }

func (l *later) mark() mark { return mark{l.put, l.sent, l.done, l.batch.Len()} }

// takeBack drops what was put since a mark. It reports false where that cannot be: some of
// it was sent, or the transaction has failed.
func (l *later) takeBack(m mark) bool {
	failed := false
	err := l.with(func(conn *pgx.Conn) error {
		failed = conn.PgConn().TxStatus() != inTransaction
		return nil
	})
	switch {
	case err != nil || failed || l.done != m.done:
		return false
	case l.put == m.put:
		return true
	case l.sent != m.sent:
		return false
	}
	l.batch.QueuedQueries = l.batch.QueuedQueries[:m.queued]
	return true
}

// inTransaction is the status of a connection with a transaction that has not failed.
//
// spec: PostgreSQL "ReadyForQuery"
const inTransaction = 'T'

// forget drops what was not sent.
func (l *later) forget() { l.batch = pgx.Batch{} }

// send returns the error of the first statement that failed; those after it did nothing.
func (l *later) send(ctx context.Context) error {
	if l.batch.Len() == 0 {
		return nil
	}
	batch := l.batch
	l.forget()
	l.sent++
	return l.with(func(conn *pgx.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
}

// ask asks questions together.
func (l *later) ask(ctx context.Context, d dialect, questions []*question) error {
	var batch pgx.Batch
	for _, each := range questions {
		args, err := d.values(each.args)
		if err != nil {
			return err
		}
		batch.Queue(d.say(each.query), args...).QueryRow(func(row pgx.Row) error { return row.Scan(each.dest...) })
	}
	err := l.with(func(conn *pgx.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
	for _, each := range questions {
		each.answered = err == nil
	}
	return err
}

// with calls what needs the connection of the driver.
func (l *later) with(do func(*pgx.Conn) error) error {
	return l.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the driver is %T", driver)
		}
		return do(conn.Conn())
	})
}
