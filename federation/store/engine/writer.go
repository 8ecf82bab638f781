package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// writer is the connection that writes.
type writer struct {
	*statements

	conn  *sql.Conn
	lasts bool // it is the only one that there can be
}

func newWriter(d Dialect, conn *sql.Conn) *writer {
	w := &writer{statements: newStatements(d, conn), conn: conn, lasts: d == InSQLite}
	if d == InPostgres {
		w.pipeline = newPipeline(conn)
	}
	return w
}

// transaction is a transaction under way. After an error of commit the caller rolls it back;
// an error of rollback means that the connection is unusable.
type transaction struct {
	commit, rollback func() error
}

// begin begins a transaction. No other transaction writes from then to its end, in this
// process or another: rows that it reads stay as they are, and rows are numbered in the order
// in which readers see them.
func (w *writer) begin(ctx context.Context) (transaction, error) {
	if w.pipeline != nil {
		return w.pipeline.begin(ctx), nil
	}
	if _, err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return transaction{}, err
	}
	return transaction{
		commit: func() error { _, err := w.exec(ctx, "COMMIT"); return err },
		// SQLite has rolled back by itself after most failures of the disk, and then
		// says so; where it has not, a failure here shows at the next begin.
		rollback: func() error { _, _ = w.exec(ctx, "ROLLBACK"); return nil },
	}, nil
}

// over calls the functions that wait for the end of the transaction.
func (w *writer) over() {
	for _, do := range w.after {
		do()
	}
	w.after = nil
}

// Close ends the connection too, unless it is that of a file. One that is in a
// transaction must not be used again.
func (w *writer) Close() error {
	err := w.statements.Close()
	if w.lasts {
		return err
	}
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close() // it is gone already
	return nil
}
