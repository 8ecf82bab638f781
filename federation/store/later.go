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
}

func (l *later) queue(query string, args []any) { l.batch.Queue(query, args...) }

// forget drops what was not sent.
func (l *later) forget() { l.batch = pgx.Batch{} }

// send returns the error of the first statement that failed; those after it did nothing.
func (l *later) send(ctx context.Context) error {
	if l.batch.Len() == 0 {
		return nil
	}
	batch := l.batch
	l.forget()
	return l.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the driver is %T", driver)
		}
		return conn.Conn().SendBatch(ctx, &batch).Close()
	})
}
