package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"baton/federation"
	"baton/federation/fault"
)

// maxCheckpoints bounds how often a compaction waits for readers, up to five seconds each time.
const maxCheckpoints = 6

// Compact writes the record in a file anew, without the bytes of deleted and changed rows, and
// empties the write-ahead log, which has such bytes too. It blocks until that is on disk, and
// with it every write; reads go on. It needs twice the size of the record on disk, and its size
// in the folder for temporary files. When it fails, the record is as it was. Its error is a
// [*federation.UnavailableError] where a reader kept the log in use. On a server it does nothing.
func (s *DB) Compact(ctx context.Context) error {
	if s.reads.dialect == InPostgres {
		return nil
	}
	err := s.writes.alone(ctx, func(ctx context.Context, conn *sql.Conn) error {
		s.copies.mu.Lock() // one checkpoint refuses another one
		defer s.copies.mu.Unlock()
		return compact(ctx, conn)
	})
	if err != nil {
		return fmt.Errorf("compact the record: %w", err)
	}
	return nil
}

// compact rewrites the database on a connection that is in no transaction.
func compact(ctx context.Context, conn *sql.Conn) error {
	// The connection keeps temporary data in memory, where the copy of a large record has no room.
	if _, err := conn.ExecContext(ctx, "PRAGMA temp_store = FILE"); err != nil {
		return Failure(err)
	}
	_, err := conn.ExecContext(ctx, "VACUUM")
	_, restored := conn.ExecContext(ctx, "PRAGMA temp_store = MEMORY")
	if err := errors.Join(err, restored); err != nil {
		return Failure(err)
	}
	for range maxCheckpoints {
		var busy, frames, moved int
		if err := conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved); err != nil {
			return Failure(err)
		}
		if busy == 0 {
			return nil
		}
	}
	return &federation.UnavailableError{What: "record", Err: errors.New("readers keep the write-ahead log in use")}
}

// job is a change that is made outside of a transaction. Its err is set before done is closed.
type job struct {
	do   func(context.Context, *sql.Conn) error
	err  error
	done chan struct{}
}

// alone has something done on the connection that writes, between two batches. When ctx ends,
// it returns at once, and the job goes on.
func (c *committer) alone(ctx context.Context, do func(context.Context, *sql.Conn) error) error {
	j := &job{do: do, done: make(chan struct{})}
	select {
	case c.jobs <- j:
	case <-c.closing:
		return &federation.UnavailableError{What: "record", Err: errClosed}
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-j.done:
		fault.Again(j.err)
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
