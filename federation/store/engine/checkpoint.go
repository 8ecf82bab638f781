package engine

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// checkpointEvery is the interval of checkpoints during writes: so often that a checkpoint takes a
// few milliseconds, and so seldom that it copies a page of many commits once.
const checkpointEvery = time.Second

// minLogBytes is the size of the file of the log from which there are checkpoints. A shorter log
// costs nothing, and a checkpoint two fsyncs. The size is asked for without opening a file: to
// close one that SQLite has open ends its locks.
//
// spec: SQLite "How To Corrupt", §2.2
const minLogBytes = 8 << 20

// checkpointer copies the write-ahead log of a file into the database, on a connection of its
// own: a checkpoint of the connection that writes delays the commit that starts it. A commit
// starts one where the log grows faster than the checkpointer copies it, see [file.writer].
type checkpointer struct {
	of      file
	on      *sql.DB
	mu      sync.Mutex    // held during a checkpoint
	written chan struct{} // a write ended since the last look at the log
	closing chan struct{}
	closed  chan struct{} // closed by run
}

// startCheckpoints makes checkpoints of a file until the checkpointer is closed.
func startCheckpoints(ctx context.Context, f file, pragmas []Pragma) (*checkpointer, error) {
	on, err := sql.Open("sqlite", f.writer(pragmas...))
	if err != nil {
		return nil, err
	}
	on.SetMaxOpenConns(1)
	c := &checkpointer{of: f, on: on, written: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{})}
	c.wrote()
	go c.run(context.WithoutCancel(ctx))
	return c, nil
}

// wrote notes that the log may have grown.
func (c *checkpointer) wrote() {
	select {
	case c.written <- struct{}{}:
	default:
	}
}

// run makes checkpoints until Close. Without writes it sleeps.
func (c *checkpointer) run(ctx context.Context) {
	defer close(c.closed)
	for {
		select {
		case <-c.written:
		case <-c.closing:
			return
		}
		select {
		case <-time.After(checkpointEvery):
		case <-c.closing:
			return
		}
		if size, err := sizeOf(string(c.of) + WALSuffix); err == nil && size >= minLogBytes {
			c.checkpoint(ctx)
		}
	}
}

// checkpoint copies what no reader needs in the log. It does not wait for readers or for the
// writer. Its error has no consequence: the pages stay in the log until the next checkpoint, and
// a commit reports a failing disk.
func (c *checkpointer) checkpoint(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.on.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
}

// Close waits for a checkpoint that has begun.
func (c *checkpointer) Close() error {
	close(c.closing)
	<-c.closed
	return c.on.Close()
}
