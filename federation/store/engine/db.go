package engine

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
	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/federation"
)

var errClosed = errors.New("the record is closed")

// DB is an open database of a record, safe for concurrent use.
type DB struct {
	// Tables are the tables of a network; nil means none.
	Tables Tables
	// Parts are the parts of queries for these tables. None is empty.
	Parts SQL
	// KeyOwners caches the owners of keys by key ID.
	KeyOwners Cache[string, federation.DID]

	reads        *statements
	writes       *committer
	actors       actors
	destinations destinations
	copies       *checkpointer  // nil on a server
	leases       *replicaLeases // nil if no other process may have the record open
	close        func() error
}

// Option changes how [Open] and [OpenPostgres] open a record.
type Option func(*settings)

type settings struct {
	pragmas  []string // of the connections that write to a file
	progress Progress
	upgraded func(Upgrade)
}

func chosen(options []Option) (s settings) {
	for _, set := range options {
		set(&s)
	}
	return s
}

func (s settings) report(done Upgrade) {
	if s.upgraded != nil && done.From > 0 && done.From < done.To {
		s.upgraded(done)
	}
}

// NoSync does not sync writes to disk: a power failure may damage the record. It is for tests.
//
//nolint:gochecknoglobals // constant: a function would be dead code in the program
var NoSync Option = func(s *settings) { s.pragmas = append(s.pragmas, "synchronous(OFF)") }

// Upgrading reports the upgrade of an older record, during and after it.
func Upgrading(progress Progress, upgraded func(Upgrade)) Option {
	return func(s *settings) { s.progress, s.upgraded = progress, upgraded }
}

// Open opens the record at a path, creates a missing file, and migrates its schema to the newest
// version. Its errors are one line for the operator. The context bounds only the opening. A record
// must always be opened with the same tables.
func Open(ctx context.Context, path string, tables Tables, reg prometheus.Registerer, options ...Option) (*DB, error) {
	s, err := open(ctx, path, tables, reg, chosen(options))
	if err != nil {
		return nil, fmt.Errorf("open record %s: %w", path, err)
	}
	return s.attach(tables), nil
}

func open(ctx context.Context, path string, tables Tables, reg prometheus.Registerer, o settings) (_ *DB, err error) {
	var opened closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	file, conn, closeFile, err := openWriter(ctx, path, o.pragmas...)
	opened = append(opened, closeFile)
	if err != nil {
		return nil, err
	}
	known, err := migrationsOf(sqliteSchema, tables)
	if err != nil {
		return nil, err
	}
	done, err := migrate(ctx, conn, file, known, time.Now(), o.progress)
	if err != nil {
		return nil, NotRecord(err)
	}
	o.report(done)
	reader, err := sql.Open("sqlite", file.reader())
	if err != nil {
		return nil, err
	}
	reader.SetMaxOpenConns(maxReaders)
	reader.SetMaxIdleConns(maxReaders)
	opened = append(opened, reader)
	copies, err := startCheckpoints(ctx, file, o.pragmas)
	if err != nil {
		return nil, err
	}
	opened = append(opened, copies)

	dial := func(context.Context) (*writer, error) { return newWriter(InSQLite, conn), nil }
	s, err := begin(ctx, opened, newStatements(InSQLite, reader), dial, 0, reg)
	if err != nil {
		return nil, err
	}
	s.copies = copies
	return s, nil
}

func begin(
	ctx context.Context, opened closers, reads *statements, dial func(context.Context) (*writer, error), patience time.Duration, reg prometheus.Registerer,
) (*DB, error) {
	writes, err := newCommitter(ctx, dial, patience, newMetrics(reg))
	if err != nil {
		return nil, err
	}
	s := &DB{reads: reads, writes: writes}
	s.close = sync.OnceValue(append(opened, reads, writes).Close)
	go writes.run(context.WithoutCancel(ctx))
	return s, nil
}

// The record is locked first. The caller closes the returned connections, even after an error.
func openWriter(ctx context.Context, path string, pragmas ...string) (_ file, _ *sql.Conn, opened closers, err error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return "", nil, nil, err
	}
	opened = append(opened, lock)
	f, err := openFile(path)
	if err != nil {
		return "", nil, opened, err
	}
	writer, err := sql.Open("sqlite", f.writer(pragmas...))
	if err != nil {
		return "", nil, opened, err
	}
	opened = append(opened, writer)
	conn, err := writer.Conn(ctx)
	if err != nil {
		return "", nil, opened, NotRecord(err)
	}
	return f, conn, append(opened, conn), nil
}

// Ready commits one row: only a write proves that the disk is writable.
func (s *DB) Ready(ctx context.Context) error {
	err := s.Write(ctx, func(ctx context.Context, q Tx) error {
		return q.Put(ctx, `INSERT INTO heartbeat (id, beats) VALUES (1, 1)
			ON CONFLICT (id) DO UPDATE SET beats = heartbeat.beats + 1`)
	})
	if err != nil {
		return fmt.Errorf("write heartbeat: %w", err)
	}
	return nil
}

// OnFiled sets the function called after the commit of a delivery noted by [Tx.Filed], with the
// name of the destination. It is also called after a failed commit, and must not block.
func (s *DB) OnFiled(wake func(destination string)) { s.writes.filed.Store(&wake) }

// Close closes the record after the current batch of writes is on disk. Later calls return the
// first result. All other methods then fail with a [*federation.UnavailableError].
func (s *DB) Close() error {
	if err := s.close(); err != nil {
		return fmt.Errorf("close record: %w", err)
	}
	return nil
}

// Reads returns a reader of the committed data.
func (s *DB) Reads() Tx { return Tx{s.reads} }

// Written makes one change and returns its result. It is the only safe way to get a result from a
// change: if the caller returns early, the change continues and still writes to its variables.
func Written[T any](ctx context.Context, s *DB, apply func(context.Context, Tx) (T, error)) (T, error) {
	var answer T
	err := s.Write(ctx, func(ctx context.Context, q Tx) (err error) {
		answer, err = apply(ctx, q)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// Replicated reports whether other processes may also write to the record.
func (s *DB) Replicated() bool { return s.leases != nil }

type closers []io.Closer

type closer func() error

// Close implements [io.Closer].
func (c closer) Close() error { return c() }

// Close closes all resources, even after errors.
func (c closers) Close() error {
	var errs []error
	for _, one := range slices.Backward(c) {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// A commit needs space for the largest batch, and the same again in the write-ahead log.
const minFreeBytes = 4 << 20

// CheckRoom returns an error if the disk of a folder is almost full.
func CheckRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("measure %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < minFreeBytes { //nolint:gosec // no system has blocks of a negative size
		return fmt.Errorf("%d bytes are free at %s, fewer than %d", free, dir, minFreeBytes)
	}
	return nil
}

// Slow commits with full batches mean that the disk does not keep up.
type metrics struct {
	commit prometheus.Histogram
	batch  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "baton", Subsystem: "store", Name: "commit_seconds",
			Help:    "Time of one transaction of the record, from its begin until it is on disk.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9), // from 0.1 ms (an idle SSD) to 6.5 s (a failing disk)
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "baton", Subsystem: "store", Name: "batch_size",
			Help:    "Writes that shared one transaction of the record.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 8), // to maxBatch
		}),
	}
	reg.MustRegister(m.commit, m.batch)
	return m
}
