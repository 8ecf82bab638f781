// Package store is the record of a home, in an SQLite file or on PostgreSQL: handoffs and
// their events, inboxes with their leases and devices, feeds, bindings and sessions. It
// implements the ports of package federation, and calls the [Tables] that a network keeps beside its
// own; what a step means is decided before it comes here.
//
// # Durability
//
// The file is in WAL mode with synchronous=FULL; a server has fsync on, and
// synchronous_commit for our connections. All writes go through one
// goroutine, which puts up to 128 of those that wait into one transaction and
// releases their callers after it is on disk, so that many callers share one
// fsync. Nobody waits for a batch to fill: the next one gathers while the disk is
// busy with the one before. Each write is atomic by itself, and one that is
// refused leaves no trace and does not disturb its neighbours. When the
// transaction as a whole fails, all its writes fail.
//
// A server may be away. Then every call fails with an [*federation.UnavailableError],
// and works again when the server does. Of a write that was under way then nobody knows
// whether it was committed; who asks again is told.
//
// When the context of a write ends, its call returns at once. What was taken up by
// then is written all the same, and a caller that asks again is answered as for
// any repetition.
//
// # Concurrency
//
// Everything may be called concurrently. Reads have connections of their own,
// which cannot write, and see every write that was acknowledged before they
// began.
//
// One process has the record in a file open at a time: a lock on the file beside it,
// ending in ".lock", ends with the process, however that ends. Several gateways of one
// home may have the record on a server open. Their batches take turns, by a lock that
// ends with the transaction: what a write reads stays so until it is committed, events
// are seen in the order of their numbers, and no two batches can wait for each other. What
// one gateway is to do by itself, it does by [Record.RunExclusive].
//
// # Two databases
//
// There is one set of queries, in words that both databases understand; [dialect] has
// the rest. On a server, statements whose results no write reads are sent together. The
// schema is in schema/ for SQLite and in
// schema/postgres for PostgreSQL: one numbered file for each version, applied in order and
// never edited after a release. The suites of federationtest hold both to the same promises.
//
// Before an older record in a file is migrated it is copied beside it, to
// "NAME.vVERSION-TIME.bak"; a server has backups of its own. A record of a newer version
// is refused, and so are a record of a development version older than version 1, a file that
// may not be written and one whose write-ahead log was cut short.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation"
)

// errClosed is the cause of every failure after [Record.Close].
var errClosed = errors.New("the record is closed")

// Record is one open record.
type Record struct {
	reads    *statements
	writes   *committer
	bound    remembered[boundKey, federation.BoundName]
	boundTo  remembered[federation.DID, []federation.BoundName]
	bindings remembered[federation.DID, federation.Binding]
	deferred remembered[struct{}, bool] // whether there is any step
	tables   Tables                     // nil where no network keeps any
	parts    Queries                    // of the tables
	duties   *duties                    // nil where nobody else may have the record open
	close    func() error
}

// Open opens the record at a path, making the file where there is none, and
// brings its schema up to date. Its errors are one line for the operator: the
// file is no record, is of a newer version, or belongs to another process. The
// context bounds the opening alone. The tables belong to a network; nil is none. A record is
// always opened with the tables that it was made with.
func Open(ctx context.Context, path string, tables Tables, reg prometheus.Registerer) (*Record, error) {
	s, err := open(ctx, path, tables, reg)
	if err != nil {
		return nil, fmt.Errorf("open record %s: %w", path, err)
	}
	return s.attach(tables), nil
}

func open(ctx context.Context, path string, tables Tables, reg prometheus.Registerer) (_ *Record, err error) {
	var opened closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	file, conn, closeFile, err := openWriter(ctx, path)
	opened = append(opened, closeFile)
	if err != nil {
		return nil, err
	}
	known, err := migrationsOf(sqliteSchema, tables)
	if err != nil {
		return nil, err
	}
	if _, err := migrate(ctx, conn, file, known, time.Now()); err != nil {
		return nil, notRecord(err)
	}
	reader, err := sql.Open("sqlite", file.reader())
	if err != nil {
		return nil, err
	}
	reader.SetMaxOpenConns(maxReaders)
	reader.SetMaxIdleConns(maxReaders)
	opened = append(opened, reader)

	dial := func(context.Context) (*writer, error) { return newWriter(inSQLite, conn), nil }
	return begin(ctx, opened, newStatements(inSQLite, reader), dial, 0, reg)
}

// begin puts a record to work on connections that were opened.
func begin(
	ctx context.Context, opened closers, reads *statements, dial func(context.Context) (*writer, error), patience time.Duration, reg prometheus.Registerer,
) (*Record, error) {
	writes, err := newCommitter(ctx, dial, patience, newMetrics(reg))
	if err != nil {
		return nil, err
	}
	s := &Record{reads: reads, writes: writes}
	s.close = sync.OnceValue(append(opened, reads, writes).Close)
	go writes.run(context.WithoutCancel(ctx))
	return s, nil
}

// openWriter locks a record, and opens the one connection that writes to it. What it
// opened is to be closed whatever its error.
func openWriter(ctx context.Context, path string) (_ file, _ *sql.Conn, opened closers, err error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return "", nil, nil, err
	}
	opened = append(opened, lock)
	f, err := openFile(path)
	if err != nil {
		return "", nil, opened, err
	}
	writer, err := sql.Open("sqlite", f.writer())
	if err != nil {
		return "", nil, opened, err
	}
	opened = append(opened, writer)
	conn, err := writer.Conn(ctx)
	if err != nil {
		return "", nil, opened, notRecord(err)
	}
	return f, conn, append(opened, conn), nil
}

// Ready commits one row: nothing less proves that the disk takes writes.
func (s *Record) Ready(ctx context.Context) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, `INSERT INTO heartbeat (id, beats) VALUES (1, 1)
			ON CONFLICT (id) DO UPDATE SET beats = heartbeat.beats + 1`)
		return err
	})
	if err != nil {
		return fmt.Errorf("write heartbeat: %w", err)
	}
	return nil
}

// Close ends the record after the writes that were taken up are on disk. Later
// calls of it return what the first returned; those of other methods fail with a
// [*federation.UnavailableError].
func (s *Record) Close() error {
	if err := s.close(); err != nil {
		return fmt.Errorf("close record: %w", err)
	}
	return nil
}

// write has the committer apply one change and waits until it is on disk. When it
// returns an error, apply may still be running: what a change answers comes from [written].
func (s *Record) write(ctx context.Context, apply func(context.Context, *statements) error) error {
	return s.writes.do(ctx, nil, apply)
}

// written writes a change and returns what it answered. It is the one way for an answer
// out of a change: that of a caller who left runs on, and nobody may look at what it
// still writes.
func written[T any](ctx context.Context, s *Record, apply func(context.Context, *statements) (T, error)) (T, error) {
	var answer T
	err := s.write(ctx, func(ctx context.Context, q *statements) (err error) {
		answer, err = apply(ctx, q)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// writeRemembered is write for bound names, which are remembered. It goes on to
// its end even where the caller leaves, who may remember them too, and is to forget them
// after the change and not before.
func (s *Record) writeRemembered(ctx context.Context, apply func(context.Context, *statements) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.write(context.WithoutCancel(ctx), func(ctx context.Context, q *statements) error {
		q.then(s.bound.forgetAll)
		q.then(s.boundTo.forgetAll)
		return apply(ctx, q)
	})
}

// closers is what was opened so far, closed in reverse order.
type closers []io.Closer

// closer is something to close that has no other method.
type closer func() error

// Close implements [io.Closer].
func (c closer) Close() error { return c() }

// Close closes all, whatever fails.
func (c closers) Close() error {
	var errs []error
	for _, one := range slices.Backward(c) {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
