// Package store is the record of a home, in an SQLite file or on PostgreSQL: handoffs and
// their events, inboxes with their leases and devices, outboxes, bindings and sessions. It
// implements the ports of the other packages of federation, and calls the [Tables] that a
// network keeps beside its own. It decides nothing about steps: home judges them before.
//
// [Open] and [OpenPostgres] return a [Record], whose methods are grouped by port in files of
// this package; federationtest has the contract of each port and its suite. [Migrate],
// [Copy], [Examine] and [Transfer] work on a record that is not open.
//
// # Durability
//
// The file is in WAL mode with synchronous=FULL. A server has fsync on, and
// synchronous_commit for these connections. One goroutine makes all writes. It puts up to 128
// waiting writes into one transaction and releases their callers after the transaction is on
// disk, so that many callers share one fsync. It does not wait for a batch to fill: the next
// batch gathers while the disk is busy. Each write is atomic by itself: a refused write
// leaves no trace and does not disturb the others. When the transaction as a whole fails, all
// its writes fail.
//
// While a server is away, every call fails with an [*federation.UnavailableError], and works
// again when the server returns. A write that was under way may have been committed; a caller
// that repeats it gets the answer.
//
// When the context of a write ends, its call returns at once. A write that a batch had taken
// is made all the same, and a caller that repeats it gets the answer of a repetition.
//
// # Concurrency
//
// Everything may be called concurrently. Reads have connections of their own, which cannot
// write, and see every write that was acknowledged before they began.
//
// One process at a time has the record in a file open: a lock on the file beside it, ending
// in ".lock", ends with the process. Several replicas of one home may have the record on a
// server open. Their batches take turns, by a lock that ends with the transaction: rows that
// a write read stay unchanged until it is committed, events are seen in the order of their
// numbers, and no two batches wait for each other. [Record.RunExclusive] gives one replica a
// job alone.
//
// # Two databases
//
// There is one set of queries, in SQL that both databases understand; [dialect] has the
// differences. On a server, statements whose results no write reads are sent together. The
// schema of the core is in schema/ for SQLite and in schema/postgres for PostgreSQL, and the
// schema of a network's tables in the same folders of its own package: one numbered file for
// each version, applied in order and never edited after a release. The suites of
// federationtest hold both databases to the same promises.
//
// Before a migration of an older record in a file, a copy is made beside it, named
// "NAME.vVERSION-TIME.bak"; a server has backups of its own. A record of a newer version is
// refused, and so are a record of a development version older than version 1, a file without
// write permission and a file whose write-ahead log was cut short.
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
	leases   *replicaLeases             // nil where no other process may have the record open
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

// openWriter locks a record, and opens the one connection that writes to it. The caller
// closes the returned connections whatever the error.
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

// Close ends the record after the writes that a batch had taken are on disk. Later calls
// return the first result. The other methods then fail with a [*federation.UnavailableError].
func (s *Record) Close() error {
	if err := s.close(); err != nil {
		return fmt.Errorf("close record: %w", err)
	}
	return nil
}

// write has the committer apply one change and waits until it is on disk. When write returns
// an error, apply may still be running: [written] returns an answer safely.
func (s *Record) write(ctx context.Context, apply func(context.Context, *statements) error) error {
	return s.writes.do(ctx, nil, apply)
}

// written writes a change and returns its answer. It is the only safe way to get an answer
// out of a change: the change of a caller that left goes on, and still writes to its
// variables.
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

// writeRemembered is write for bound names, which are cached. It goes on to its end when the
// caller leaves: a caller that caches them too must forget them after the change, not before.
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
