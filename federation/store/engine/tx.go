package engine

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"
)

// Tx runs queries in the transaction of a write, or reads committed rows. Queries are
// constants in SQL that SQLite and PostgreSQL both understand, since each is parsed once. Its
// errors are the errors of the record: [federation.ErrNotFound] for a missing row,
// [*federation.UnavailableError] for a disk that cannot be used now.
type Tx struct{ statements *statements }

// Exec returns how many rows changed. A write that does not need the number calls [Tx.Put].
func (t Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return t.statements.exec(ctx, query, args...)
}

// Put is Exec for a write that does not read the result. On a server the statement is
// queued, which saves a round trip, and the error of a later statement may be its error.
func (t Tx) Put(ctx context.Context, query string, args ...any) error {
	return t.statements.put(ctx, query, args...)
}

// Row reads the first row into dest.
func (t Tx) Row(ctx context.Context, query string, args []any, dest ...any) error {
	return t.statements.row(ctx, query, args, dest...)
}

// Then has something done when the transaction is over, however it ends, and before the
// callers of its writes continue.
func (t Tx) Then(do func()) { t.statements.then(do) }

// Dialect returns the database that the queries are for.
func (t Tx) Dialect() Dialect { return t.statements.dialect }

// ReadOn runs queries on a connection, or in a transaction, that the caller opened.
func ReadOn(on preparer, d Dialect, read func(Tx) error) error {
	s := newStatements(d, on)
	return errors.Join(read(Tx{s}), s.Close())
}

// Scanner is one row of an answer.
type Scanner interface{ Scan(dest ...any) error }

// Rows reads all rows, each with scan. It is no method because methods have no type
// parameters.
func Rows[T any](ctx context.Context, t Tx, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	return rows(ctx, t.statements, scan, query, args...)
}

// ScanOne reads a row of one column.
func ScanOne[T any](row Scanner) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}

// AtMost ends a query that returns a bounded number of rows. The planner looks at a
// bound that is a bare parameter, and so parses the query again each time that one is
// given; it does not look into a sum.
const AtMost = ` LIMIT 0 + ?`

// Stamp returns a time as it is kept, to the nanosecond; the zero time is kept as 0. A time
// after the year 2262, such as a far deadline, is kept as the last time of that year.
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

// OrNull keeps an absent name out of unique indexes.
func OrNull(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// NotNull keeps absent bytes as empty ones.
func NotNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
