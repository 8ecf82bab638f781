package engine

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// pipeline sends statements to a server without waiting for each answer: it queues statements
// whose results no write reads, and sends them together. One goroutine may use it.
type pipeline struct {
	conn   *sql.Conn
	queued pgx.Batch
}

func newPipeline(conn *sql.Conn) *pipeline { return &pipeline{conn: conn} }

// queue keeps a statement for the next send.
func (p *pipeline) queue(query string, args []any) { p.queued.Queue(InPostgres.say(query), args...) }

// forget drops the queued statements.
func (p *pipeline) forget() { p.queued = pgx.Batch{} }

// send sends the queued statements, and waits for all answers. It returns the error of the
// first statement that failed; the server skips those after it.
func (p *pipeline) send(ctx context.Context) error {
	if p.queued.Len() == 0 {
		return nil
	}
	batch := p.queued
	p.forget()
	return p.with(func(conn *pgx.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
}

// failed reports whether the transaction of the connection takes no more statements.
//
// spec: PostgreSQL "ReadyForQuery"
func (p *pipeline) failed() bool {
	const inTransaction = 'T'
	failed := true
	err := p.with(func(conn *pgx.Conn) error {
		failed = conn.PgConn().TxStatus() != inTransaction
		return nil
	})
	return failed || err != nil
}

// with calls do with the connection of the driver.
func (p *pipeline) with(do func(*pgx.Conn) error) error {
	return p.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("the driver is %T", driver)
		}
		return do(conn.Conn())
	})
}
