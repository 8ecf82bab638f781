package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// maxBatch bounds the writes in one transaction, and so what each caller waits for
// the others. By then the fsync is a small part of what a write costs, and larger
// batches would bring little.
const maxBatch = 128

// committer applies all writes, on the one connection that may.
type committer struct {
	dial     func(context.Context) (*pen, error)
	pen      *pen          // nil while there is none
	patience time.Duration // with one batch; 0 for as long as it takes
	metrics  *metrics
	waiting  chan *item    // not buffered: what is in it was taken up
	closing  chan struct{} // closed by Close
	closed   chan struct{} // closed by run
}

// item is one write. Its err is set before done is closed.
type item struct {
	apply func(context.Context, *statements) error
	asks  *question // what apply asks first; nil where that is nothing
	err   error
	done  chan struct{}
}

// newCommitter returns a committer that writes with what dial returns: at once and,
// after that failed, again.
func newCommitter(ctx context.Context, dial func(context.Context) (*pen, error), patience time.Duration, m *metrics) (*committer, error) {
	pen, err := dial(ctx)
	return &committer{
		dial:     dial,
		pen:      pen,
		patience: patience,
		metrics:  m,
		waiting:  make(chan *item),
		closing:  make(chan struct{}),
		closed:   make(chan struct{}),
	}, err
}

// do waits until the change is on disk, or the context ends. A context that ended
// before writes nothing.
func (c *committer) do(ctx context.Context, asks *question, apply func(context.Context, *statements) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	it := &item{apply: apply, asks: asks, done: make(chan struct{})}
	select {
	case c.waiting <- it:
	case <-c.closing:
		return &federation.UnavailableError{What: "record", Err: errClosed}
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-it.done:
		return it.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run commits batches until Close.
func (c *committer) run(ctx context.Context) {
	defer close(c.closed)
	for {
		select {
		case first := <-c.waiting:
			c.commit(ctx, c.gather(first))
		case <-c.closing:
			return
		}
	}
}

// gather takes those who wait at this moment, and waits for nobody.
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

// commit writes one batch and releases its callers.
func (c *committer) commit(ctx context.Context, batch []*item) {
	begun := time.Now()
	if err := c.transact(ctx, batch); err != nil {
		// What one write was answered may rest on another one that is now undone, so
		// the refused ones fail with the rest.
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

// transact returns an error when nothing of the batch was written, or nobody knows:
// when the server of the record went away while it was told to commit.
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

// attempt makes the writes of a batch. One of which a write failed half done is undone as a
// whole, and made again with something to undo each write by.
func (c *committer) attempt(ctx context.Context, batch []*item) error {
	err := c.inTransaction(ctx, batch, c.applyAll)
	if errors.Is(err, errHalfDone) {
		err = c.inTransaction(ctx, batch, c.applyEach)
	}
	return err
}

// inTransaction commits what apply makes of a batch.
func (c *committer) inTransaction(ctx context.Context, batch []*item, apply func(context.Context, []*item) error) (err error) {
	if c.pen == nil {
		if c.pen, err = c.dial(ctx); err != nil {
			return err
		}
	}
	defer c.pen.over()
	tx, err := c.pen.begin(ctx)
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

// drop ends a connection that may be beyond use: the next batch makes another. What
// it says of its end is of no interest to anybody.
func (c *committer) drop() {
	if c.pen.lasts {
		return
	}
	_ = c.pen.Close()
	c.pen = nil
}

// applyAll makes the writes of a batch. One that is alone has the transaction to leave
// nothing where it fails. Over a network those go first, and together, that can be decided
// by what they ask. Its error is that of a transaction that is beyond use.
func (c *committer) applyAll(ctx context.Context, batch []*item) error {
	switch {
	case len(batch) == 1:
		if err := batch[0].apply(ctx, c.pen.statements); err != nil {
			return err
		}
		return c.pen.flush(ctx)
	case c.pen.later == nil:
		return c.applyBare(ctx, batch)
	}
	rest, err := c.applyAhead(ctx, batch)
	if err != nil || len(rest) == 0 {
		return err
	}
	return c.applyEach(ctx, rest)
}

// errHalfDone is the error of a batch in which a write failed after it had changed
// something.
var errHalfDone = errors.New("a write failed half done")

// applyBare makes the writes of a batch one after the other, with nothing to undo one by: in
// a file a savepoint is a copy of every page that the write touches. What can be in the way
// of a write it finds before it changes anything, all but always; where it does not, the
// error is errHalfDone.
func (c *committer) applyBare(ctx context.Context, batch []*item) error {
	for _, it := range batch {
		before := c.pen.changes
		it.err = it.apply(ctx, c.pen.statements)
		if _, ok := errors.AsType[*federation.UnavailableError](it.err); ok {
			return it.err // a failing disk undoes the whole transaction
		}
		if it.err != nil && c.pen.changes != before {
			return errHalfDone
		}
	}
	return nil
}

// applyEach gives each write a savepoint, so that one that fails leaves nothing: it is
// there before the write begins, and what the write put is sent before the next one. Its
// error is that of a transaction that is beyond use.
func (c *committer) applyEach(ctx context.Context, batch []*item) error {
	if _, err := c.pen.exec(ctx, "SAVEPOINT item"); err != nil {
		return fmt.Errorf("set savepoint: %w", err)
	}
	for _, it := range batch {
		it.err = c.applyOne(ctx, it)
		if _, ok := errors.AsType[*federation.UnavailableError](it.err); ok {
			return it.err // a failing disk undoes the whole transaction
		}
		if it.err == nil {
			continue
		}
		c.pen.forget()
		if _, err := c.pen.exec(ctx, "ROLLBACK TO item"); err != nil { // it stays, for the next write
			return fmt.Errorf("undo write: %w", err)
		}
	}
	return nil
}

// applyOne makes one write, and has its savepoint give way to that of the next. What it
// put is sent by then: its errors are its own.
func (c *committer) applyOne(ctx context.Context, it *item) error {
	if err := it.apply(ctx, c.pen.statements); err != nil {
		return err
	}
	for _, next := range []string{"RELEASE item", "SAVEPOINT item"} {
		if err := c.pen.put(ctx, next); err != nil {
			return fmt.Errorf("move savepoint: %w", err)
		}
	}
	return c.pen.flush(ctx)
}

// Close waits for the batch that was taken up.
func (c *committer) Close() error {
	close(c.closing)
	<-c.closed
	if c.pen == nil {
		return nil
	}
	return c.pen.Close()
}
