package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// pen is the connection that writes.
type pen struct {
	*statements

	conn  *sql.Conn
	lasts bool // it is the only one that there can be
}

func newPen(d dialect, conn *sql.Conn) *pen {
	p := &pen{statements: newStatements(d, conn), conn: conn, lasts: d == inSQLite}
	if d == inPostgres {
		p.later = newLater(conn)
	}
	return p
}

// transaction is one under way. After an error of commit it is to be rolled back; an
// error of that means that the connection is of no use.
type transaction struct {
	commit, rollback func() error
}

// begin begins a transaction. Nobody else writes from then to its end, in this process
// or another: what it reads stays as it is until it writes, and rows are numbered in
// the order in which they are seen.
func (p *pen) begin(ctx context.Context) (transaction, error) {
	if p.dialect == inPostgres {
		return p.beginLocked(ctx)
	}
	if _, err := p.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return transaction{}, err
	}
	return transaction{
		commit: func() error { _, err := p.exec(ctx, "COMMIT"); return err },
		// SQLite has rolled back by itself after most failures of the disk, and then
		// says so; where it has not, a failure here shows at the next begin.
		rollback: func() error { _, _ = p.exec(ctx, "ROLLBACK"); return nil },
	}, nil
}

// lockWriters waits for the end of every other transaction that writes to the same
// schema, and goes with its own. Queries after it see all that those committed. The
// number is "Btn1".
const lockWriters = `SELECT pg_advisory_xact_lock(1114926641, hashtext(current_schema()))`

func (p *pen) beginLocked(ctx context.Context) (transaction, error) {
	p.forget() // it went with its transaction
	tx, err := p.conn.BeginTx(ctx, nil)
	if err != nil {
		return transaction{}, failure(err)
	}
	if _, err := p.exec(ctx, lockWriters); err != nil {
		return transaction{}, errors.Join(err, tx.Rollback())
	}
	return transaction{
		commit: func() error {
			if err := p.flush(ctx); err != nil {
				return err
			}
			return failure(tx.Commit())
		},
		rollback: tx.Rollback,
	}, nil
}

// over does what was to be done after the transaction.
func (p *pen) over() {
	for _, do := range p.after {
		do()
	}
	p.after = nil
}

// Close ends the connection too, unless it is that of a file. One that is in a
// transaction must not be used again.
func (p *pen) Close() error {
	err := p.statements.Close()
	if p.lasts {
		return err
	}
	_ = p.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = p.conn.Close() // it is gone already
	return nil
}
