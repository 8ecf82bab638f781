package engine

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/baton-gateway/baton/federation"
)

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// Queries are constants of the program, so the number of parsed ones is bounded. The errors are
// documented at [Tx].
type statements struct {
	dialect  Dialect
	on       preparer
	writes   bool      // used by one goroutine at a time
	pipeline *pipeline // of a writer on a server, or nil
	changes  int       // statements of a writer that may have changed something
	after    []func()  // called after the transaction of a writer
	filed    []string  // destinations for which a writer filed a delivery
	mu       sync.RWMutex
	kept     map[string]*sql.Stmt
	closed   bool
}

func newStatements(d Dialect, on preparer) *statements {
	return &statements{dialect: d, on: on, kept: map[string]*sql.Stmt{}}
}

func (s *statements) put(ctx context.Context, query string, args ...any) error {
	if s.pipeline == nil {
		_, err := s.exec(ctx, query, args...)
		return err
	}
	values, err := s.dialect.values(args)
	if err == nil {
		s.changes++
		s.pipeline.queue(query, values)
	}
	return err
}

func (s *statements) then(do func()) { s.after = append(s.after, do) }

func (s *statements) flush(ctx context.Context) error {
	if s.pipeline == nil {
		return nil
	}
	return Failure(s.pipeline.send(ctx))
}

func (s *statements) forget() {
	if s.pipeline != nil {
		s.pipeline.forget()
	}
}

// In a file, statements fail independently.
func (s *statements) failed() bool { return s.pipeline != nil && s.pipeline.failed() }

func (s *statements) exec(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, args, err := s.prepare(ctx, query, args)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		s.changes++
		return 0, Failure(err)
	}
	changed, err := result.RowsAffected()
	if changed > 0 || err != nil {
		s.changes++
	}
	return changed, err
}

func (s *statements) row(ctx context.Context, query string, args []any, dest ...any) error {
	stmt, args, err := s.ask(ctx, query, args)
	if err != nil {
		return err
	}
	return Failure(stmt.QueryRowContext(s.unwatched(ctx), args...).Scan(dest...))
}

func rows[T any](ctx context.Context, s *statements, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	stmt, args, err := s.ask(ctx, query, args)
	if err != nil {
		return nil, err
	}
	found, err := stmt.QueryContext(s.unwatched(ctx), args...)
	if err != nil {
		return nil, Failure(err)
	}
	defer found.Close()
	var all []T
	for found.Next() {
		one, err := scan(found)
		if err != nil {
			return nil, Failure(err)
		}
		if all = append(all, one); ctx.Err() != nil {
			return nil, Failure(ctx.Err())
		}
	}
	return all, Failure(found.Err())
}

// To watch a context, the driver for files starts and ends two goroutines, which takes as long as
// looking up a row. Instead, a canceled context is noticed before a query and after each of its
// rows.
func (s *statements) unwatched(ctx context.Context) context.Context {
	if s.dialect == InSQLite {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// A writer's query other than a SELECT changes the rows that it returns.
func (s *statements) ask(ctx context.Context, query string, args []any) (*sql.Stmt, []any, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, Failure(err)
	}
	if s.writes && !strings.HasPrefix(query, "SELECT") {
		s.changes++
	}
	return s.prepare(ctx, query, args)
}

// Sends the queued statements first.
func (s *statements) prepare(ctx context.Context, query string, args []any) (*sql.Stmt, []any, error) {
	if err := s.flush(ctx); err != nil {
		return nil, nil, err
	}
	values, err := s.dialect.values(args)
	if err != nil {
		return nil, nil, err
	}
	stmt, err := s.parsed(ctx, query)
	return stmt, values, err
}

func (s *statements) parsed(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, err := s.known(query); stmt != nil || err != nil {
		return stmt, err
	}
	// Not under the lock, because an unresponsive server must not delay callers whose query is
	// already parsed.
	stmt, err := s.on.PrepareContext(ctx, s.dialect.rebind(query))
	if err != nil {
		return nil, Failure(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.kept[query]; ok || s.closed {
		return first, errors.Join(stmt.Close(), s.unlessClosed())
	}
	s.kept[query] = stmt
	return stmt, nil
}

func (s *statements) known(query string) (*sql.Stmt, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kept[query], s.unlessClosed()
}

func (s *statements) unlessClosed() error {
	if s.closed {
		return &federation.UnavailableError{What: "record", Err: errClosed}
	}
	return nil
}

// Close closes the statements; running ones complete.
func (s *statements) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, stmt := range s.kept {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// Failure maps an error of the driver to one of the classes of the record. An unknown error is a
// bug here and is returned unchanged.
func Failure(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return federation.ErrNotFound
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return postgresFailure(err)
	}
	switch e.Code() & 0xff { // ignore the upper bits
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL,
		sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM:
		return &federation.UnavailableError{What: "record", Err: err}
	}
	return err
}

// Tx runs queries in the transaction of a write, or reads committed rows. Queries are constants in
// SQL for both databases, because each is parsed once. Its errors are [federation.ErrNotFound] for
// a missing row, and [*federation.UnavailableError] for a disk that cannot be used now.
type Tx struct{ statements *statements }

// Exec returns the number of changed rows. If the number is not needed, call [Tx.Put].
func (t Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return t.statements.exec(ctx, query, args...)
}

// Put is Exec for a write without a result. On a server, the statement is queued, so a later
// statement may return its error.
func (t Tx) Put(ctx context.Context, query string, args ...any) error {
	return t.statements.put(ctx, query, args...)
}

// Row reads the first row into dest.
func (t Tx) Row(ctx context.Context, query string, args []any, dest ...any) error {
	return t.statements.row(ctx, query, args, dest...)
}

// Then schedules do to be called after the transaction, whether it commits or fails, and before the
// callers of its writes continue.
func (t Tx) Then(do func()) { t.statements.then(do) }

// Filed records that the transaction files a delivery to a destination: see [DB.OnFiled].
func (t Tx) Filed(destination string) {
	if !slices.Contains(t.statements.filed, destination) {
		t.statements.filed = append(t.statements.filed, destination)
	}
}

// Dialect returns the database of the queries.
func (t Tx) Dialect() Dialect { return t.statements.dialect }

// ReadOn runs queries on the caller's connection or transaction.
func ReadOn(on preparer, d Dialect, read func(Tx) error) error {
	s := newStatements(d, on)
	return errors.Join(read(Tx{s}), s.Close())
}

// Scanner is one row of an answer.
type Scanner interface{ Scan(dest ...any) error }

// Rows reads all rows, each with scan.
func Rows[T any](ctx context.Context, t Tx, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	return rows(ctx, t.statements, scan, query, args...)
}

// ScanOne reads a row of one column.
func ScanOne[T any](row Scanner) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}

// AtMost ends a query that returns a bounded number of rows. The planner inspects the bound value
// of a bare parameter, and parses the query again for each new value. It does not do so for a sum.
const AtMost = ` LIMIT 0 + ?`

// Stamp returns the stored form of a time, in nanoseconds; 0 for the zero time. A time after the
// year 2262 is stored as the last time of that year.
func Stamp(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Moment returns the time of a stamp.
func Moment(stamp int64) time.Time {
	if stamp == 0 {
		return time.Time{}
	}
	return time.Unix(0, stamp).UTC()
}

// OrNull stores "" as NULL, to keep absent names out of unique indexes.
func OrNull(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// NotNull stores absent bytes as empty bytes.
func NotNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
