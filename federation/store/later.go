package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// later are statements that nobody waits for. They are sent to a server together, which
// costs one answer instead of one for each, and rows that go together as one statement. It
// is for one goroutine.
type later struct {
	conn  *sql.Conn
	forms map[string]*form // by the statement as the code has it
	kept  []kept
	write int // which of the batch is under way
	put   int // statements, ever
	sent  int // batches of them
	done  int // statements that somebody waited for, and that may change something
}

func newLater(conn *sql.Conn) *later { return &later{conn: conn, forms: map[string]*form{}} }

func (l *later) keep(query string, args []any, row bool) {
	l.put++
	l.kept = append(l.kept, kept{query: query, args: args, row: row, write: l.write})
}

// mark is how far things had got before a write.
type mark struct{ put, sent, done, kept int }

// begin says that another write begins.
func (l *later) begin() mark {
	l.write++
	return mark{l.put, l.sent, l.done, len(l.kept)}
}

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
	l.kept = l.kept[:m.kept]
	return true
}

// inTransaction is the status of a connection with a transaction that has not failed.
//
// spec: PostgreSQL "ReadyForQuery"
const inTransaction = 'T'

// forget drops what was not sent.
func (l *later) forget() { l.kept = nil }

// send returns the error of the first statement that failed; those after it did nothing.
func (l *later) send(ctx context.Context) error {
	if len(l.kept) == 0 {
		return nil
	}
	all := arrange(l.kept)
	l.forget()
	l.sent++
	return l.with(func(conn *pgx.Conn) error {
		var batch pgx.Batch
		for _, each := range all {
			query, args, err := l.form(each.query).filled(ctx, conn, each.rows)
			if err != nil {
				return err
			}
			batch.Queue(query, args...)
		}
		return conn.SendBatch(ctx, &batch).Close()
	})
}

// ask asks questions together.
func (l *later) ask(ctx context.Context, questions []*question) error {
	err := l.with(func(conn *pgx.Conn) error {
		var batch pgx.Batch
		for query, same := range byQuery(questions) {
			rows := make([][]any, len(same))
			for i, each := range same {
				values, err := inPostgres.values(each.args)
				if err != nil {
					return err
				}
				rows[i] = values
			}
			text, args, err := l.form(query).filled(ctx, conn, rows)
			if err != nil {
				return err
			}
			batch.Queue(text, args...).Query(func(found pgx.Rows) error { return readAnswers(found, same) })
		}
		return conn.SendBatch(ctx, &batch).Close()
	})
	for _, each := range questions {
		each.answered = err == nil
	}
	return err
}

// byQuery parts questions by what they ask.
func byQuery(questions []*question) map[string][]*question {
	parted := map[string][]*question{}
	for _, each := range questions {
		parted[each.query] = append(parted[each.query], each)
	}
	return parted
}

// readAnswers reads a row for each question.
func readAnswers(found pgx.Rows, questions []*question) error {
	defer found.Close()
	for _, each := range questions {
		if !found.Next() {
			return errors.Join(found.Err(), errNoAnswer)
		}
		if err := found.Scan(each.dest...); err != nil {
			return err
		}
	}
	found.Close()
	return found.Err()
}

// errNoAnswer is a question without a row, which each is written to have.
var errNoAnswer = errors.New("a question was not answered")

func (l *later) form(query string) *form {
	f, ok := l.forms[query]
	if !ok {
		f = &form{written: query, one: inPostgres.say(query)}
		l.forms[query] = f
	}
	return f
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
