package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// The bound limits the time that each caller waits for the others. At this size the fsync is a
// small part of the cost of a write, so larger batches would save little.
const maxBatch = 128

type committer struct {
	dial     func(context.Context) (*writer, error)
	writer   *writer       // nil while there is none
	patience time.Duration // timeout of one batch; 0 for none
	metrics  *metrics
	filed    atomic.Pointer[func(destination string)] // see [DB.OnFiled]; may be nil
	waiting  chan *item                               // unbuffered: each sent item is in a batch
	jobs     chan *job
	closing  chan struct{}
	closed   chan struct{}
}

// The field err is set before done is closed.
type item struct {
	apply func(context.Context, Tx) error
	asks  []*Question // read before apply
	err   error
	done  chan struct{}
}

// A panic makes this write fail with an error, and continues in its caller.
func (it *item) run(ctx context.Context, q Tx) error {
	return fault.Catch(func() error { return it.apply(ctx, q) })
}

func newCommitter(ctx context.Context, dial func(context.Context) (*writer, error), patience time.Duration, m *metrics) (*committer, error) {
	writer, err := dial(ctx)
	return &committer{
		dial:     dial,
		writer:   writer,
		patience: patience,
		metrics:  m,
		waiting:  make(chan *item),
		jobs:     make(chan *job),
		closing:  make(chan struct{}),
		closed:   make(chan struct{}),
	}, err
}

// Write makes one change and blocks until it is on disk. After an error, apply may still be
// running: use [Written] to return a result safely.
func (s *DB) Write(ctx context.Context, apply func(context.Context, Tx) error) error {
	return s.WriteAfter(ctx, nil, apply)
}

// WriteAfter is Write for a change that begins with queries. If the context has already ended,
// nothing is written.
func (s *DB) WriteAfter(ctx context.Context, first []*Question, apply func(context.Context, Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	it := &item{apply: apply, asks: first, done: make(chan struct{})}
	select {
	case s.writes.waiting <- it:
	case <-s.writes.closing:
		return &federation.UnavailableError{What: "record", Err: errClosed}
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.copies != nil {
		defer s.copies.wrote()
	}
	select {
	case <-it.done:
		fault.Again(it.err)
		return it.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *committer) run(ctx context.Context) {
	defer close(c.closed)
	for {
		select {
		case first := <-c.waiting:
			c.commit(ctx, c.gather(first))
		case j := <-c.jobs:
			j.err = fault.Catch(func() error { return j.do(ctx, c.writer.conn) })
			close(j.done)
		case <-c.closing:
			return
		}
	}
}

func (c *committer) gather(first *item) []*item {
	batch := []*item{first}
	for len(batch) < maxBatch {
		select {
		case it := <-c.waiting:
			batch = append(batch, it)
		default:
			return batch
		}
	}
	return batch
}

func (c *committer) commit(ctx context.Context, batch []*item) {
	begun := time.Now()
	if err := c.transact(ctx, batch); err != nil {
		// A refusal may depend on another write of the failed batch, so refused writes fail with
		// the rest of it.
		for _, it := range batch {
			it.err = err
		}
	}
	c.metrics.commit.Observe(time.Since(begun).Seconds())
	c.metrics.batch.Observe(float64(len(batch)))
	for _, it := range batch {
		close(it.done)
	}
}

// The error means that nothing was written, or that this is unknown because the server disconnected
// during the commit.
func (c *committer) transact(ctx context.Context, batch []*item) error {
	if c.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.patience)
		defer cancel()
	}
	err := c.attempt(ctx, batch)
	if err != nil && ctx.Err() != nil {
		return &federation.UnavailableError{What: "record", Err: err}
	}
	return err
}

// If a write fails after it changed something, the whole transaction is rolled back, and the batch
// is repeated with a savepoint for each write.
func (c *committer) attempt(ctx context.Context, batch []*item) error {
	err := c.inTransaction(ctx, batch, c.applyAll)
	if errors.Is(err, errHalfDone) {
		err = c.inTransaction(ctx, batch, c.applyEach)
	}
	return err
}

func (c *committer) inTransaction(ctx context.Context, batch []*item, apply func(context.Context, []*item) error) (err error) {
	if c.writer == nil {
		if c.writer, err = c.dial(ctx); err != nil {
			return err
		}
	}
	defer c.over(c.writer)
	tx, err := c.writer.begin(ctx)
	if err != nil {
		c.drop()
		return fmt.Errorf("begin: %w", err)
	}
	if err = apply(ctx, batch); err == nil {
		if err = tx.commit(); err == nil {
			return nil
		}
		err = fmt.Errorf("commit: %w", err)
	}
	if tx.rollback() != nil {
		c.drop()
	}
	return err
}

// The connection may be unusable. The next batch opens another.
func (c *committer) drop() {
	if c.writer.lasts {
		return
	}
	_ = c.writer.Close()
	c.writer = nil
}

// A write of the batch failed after it had changed something.
var errHalfDone = errors.New("a write failed partway")

// In a file, a savepoint copies each page that the write changes; on a server, it takes a round
// trip. A write almost always fails before it changes anything; otherwise, the error is
// errHalfDone. After an error, the transaction must be rolled back.
func (c *committer) applyAll(ctx context.Context, batch []*item) (err error) {
	if c.writer.pipeline != nil {
		if batch, err = prefetch(ctx, c.writer.pipeline, batch); err != nil {
			return orHalfDone(err)
		}
	}
	if len(batch) == 1 {
		return batch[0].run(ctx, Tx{c.writer.statements})
	}
	for _, it := range batch {
		before := c.writer.changes
		it.err = it.run(ctx, Tx{c.writer.statements})
		if _, ok := errors.AsType[*federation.UnavailableError](it.err); ok {
			return it.err // a disk failure undoes the whole transaction
		}
		if it.err != nil && (c.writer.changes != before || c.writer.failed()) {
			return errHalfDone
		}
	}
	return nil
}

// orHalfDone returns errHalfDone for an error caused by one write of a batch, and other errors
// unchanged.
func orHalfDone(err error) error {
	if _, away := errors.AsType[*federation.UnavailableError](err); err == nil || away || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", errHalfDone, err)
}

// A failed write leaves nothing. The queued statements of a write are sent before the next write
// begins. After an error, the transaction must be rolled back.
func (c *committer) applyEach(ctx context.Context, batch []*item) error {
	if _, err := c.writer.exec(ctx, "SAVEPOINT item"); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	for _, it := range batch {
		for _, asked := range it.asks {
			asked.answered = false // earlier writes may have changed the row
		}
		it.err = c.applyOne(ctx, it)
		if _, ok := errors.AsType[*federation.UnavailableError](it.err); ok {
			return it.err // a disk failure undoes the whole transaction
		}
		if it.err == nil {
			continue
		}
		c.writer.forget()
		if _, err := c.writer.exec(ctx, "ROLLBACK TO item"); err != nil { // keeps the savepoint for the next write
			return fmt.Errorf("undo write: %w", err)
		}
	}
	return nil
}

// The savepoint is replaced with that of the next write. The queued statements are sent, so that
// their errors are errors of this write.
func (c *committer) applyOne(ctx context.Context, it *item) error {
	if err := it.run(ctx, Tx{c.writer.statements}); err != nil {
		return err
	}
	for _, next := range []string{"RELEASE item", "SAVEPOINT item"} {
		if err := c.writer.put(ctx, next); err != nil {
			return fmt.Errorf("move savepoint: %w", err)
		}
	}
	return c.writer.flush(ctx)
}

// Close waits for the current batch.
func (c *committer) Close() error {
	close(c.closing)
	<-c.closed
	if c.writer == nil {
		return nil
	}
	return c.writer.Close()
}

type writer struct {
	*statements

	conn  *sql.Conn
	lasts bool // true for a file: the connection is never replaced
}

func newWriter(d Dialect, conn *sql.Conn) *writer {
	w := &writer{statements: newStatements(d, conn), conn: conn, lasts: d == InSQLite}
	w.writes = true
	if d == InPostgres {
		w.pipeline = newPipeline(conn)
	}
	return w
}

// After an error of commit, the caller rolls it back. An error of rollback means that the
// connection is unusable.
type transaction struct {
	commit, rollback func() error
}

// Until the transaction ends, no other one writes, in this process or another. Rows that it reads
// stay unchanged, and row numbers follow the order in which readers see the rows.
func (w *writer) begin(ctx context.Context) (transaction, error) {
	if w.pipeline != nil {
		return w.pipeline.begin(ctx), nil
	}
	if _, err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return transaction{}, err
	}
	return transaction{
		commit: func() error { _, err := w.exec(ctx, "COMMIT"); return err },
		// After most disk failures, SQLite has already rolled back, so this fails too. Any other
		// failure appears at the next begin.
		rollback: func() error { _, _ = w.exec(ctx, "ROLLBACK"); return nil },
	}, nil
}

// over calls the functions that wait for the end of a transaction of the writer.
func (c *committer) over(w *writer) {
	for _, do := range w.after {
		do()
	}
	if wake := c.filed.Load(); wake != nil {
		for _, destination := range w.filed {
			(*wake)(destination)
		}
	}
	w.after, w.filed = nil, nil
}

// Close also ends the connection, except to a file. A connection in a transaction must not be used
// again.
func (w *writer) Close() error {
	err := w.statements.Close()
	if w.lasts {
		return err
	}
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close() // may already be closed
	return nil
}

// A compaction waits up to five seconds for readers each time.
const maxCheckpoints = 6

// Compact rewrites a record in a file without the bytes of deleted and changed rows, also in the
// write-ahead log. It blocks, and delays all writes; reads continue. It needs twice the size of the
// record on disk, and its size in the folder for temporary files. After a failure the record is
// unchanged. The error is a [*federation.UnavailableError] if a reader kept the log in use. On a
// server it does nothing.
func (s *DB) Compact(ctx context.Context) error {
	if s.reads.dialect == InPostgres {
		return nil
	}
	err := s.writes.alone(ctx, func(ctx context.Context, conn *sql.Conn) error {
		s.copies.mu.Lock() // a checkpoint fails while another one runs
		defer s.copies.mu.Unlock()
		return compact(ctx, conn)
	})
	if err != nil {
		return fmt.Errorf("compact the record: %w", err)
	}
	return nil
}

// The connection must not be in a transaction.
func compact(ctx context.Context, conn *sql.Conn) error {
	// The connection keeps temporary data in memory, which is too small for a copy of a large
	// record.
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

// The field err is set before done is closed.
type job struct {
	do   func(context.Context, *sql.Conn) error
	err  error
	done chan struct{}
}

// The function do runs on the writing connection, between two batches. If ctx ends, the call
// returns at once, and the job continues.
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
