package engine

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Each reader has a page cache, and more of them would only wait for the same disk.
const maxReaders = 4

// The record contains private messages.
const ownerOnly = 0o600

type file string

// SQLite would make a missing file readable by all users. Its companions (-wal, -shm) inherit the
// permissions.
func openFile(path string) (file, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := checkWritable(abs); err != nil {
		return "", err
	}
	f, err := create(abs)
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return file(abs), checkWAL(abs)
}

// The permission bits must also apply to the superuser, which the system always lets write.
func checkWritable(path string) error {
	for _, name := range []string{path, path + WALSuffix} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() && info.Mode().Perm()&0o200 == 0 {
			return fmt.Errorf("%s is read-only: chmod 600 it", filepath.Base(name))
		}
	}
	return nil
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, ownerOnly) //nolint:gosec // the operator names the path
}

// The fullfsync settings matter only on macOS, whose fsync returns before the disk has the bytes.
// The last of two pragmas with the same name applies.
func (f file) writer(more ...string) string {
	pragmas := []string{
		"busy_timeout(5000)", // milliseconds; an SQLite shell may hold the file
		"synchronous(FULL)",
		"fullfsync(1)",
		"checkpoint_fullfsync(1)",
		"wal_autocheckpoint(16000)", // pages, 64 MiB, or 128 of 8 KiB: checkpoints are more expensive than a long WAL
		"cache_size(-65536)",        // KiB
		"temp_store(MEMORY)",        // undo of one write: a few pages
		"foreign_keys(0)",
	}
	return f.dsn(url.Values{"_pragma": append(pragmas, more...)})
}

func (f file) reader() string {
	return f.dsn(url.Values{
		"mode": {"ro"},
		"_pragma": {
			"busy_timeout(5000)",
			"cache_size(-16384)", // KiB, per connection
		},
	})
}

func (f file) dsn(options url.Values) string {
	options.Set("_dqs", "0") // a misspelt column is an error, not a string
	return (&url.URL{Scheme: "file", Path: string(f), RawQuery: options.Encode()}).String()
}

// Lock prevents all processes from opening the record at a path until it is closed, or this process
// ends. The record may be missing.
func Lock(path string) (io.Closer, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("lock record %s: %w", path, err)
	}
	return lock, nil
}

// A child process started by another goroutine shares the locks of the open files until its exec,
// so a released lock may stay for some milliseconds.
const lockWait = time.Second

// The lock ends with this process. The file is not removed, because then two processes could lock
// two files with the same name.
func lockFile(path string) (*os.File, error) {
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	err = waitLock(f)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = errors.New("another process has it open")
	}
	return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
}

// Returns EWOULDBLOCK if another process has the lock after [lockWait].
func waitLock(f *os.File) error {
	for late := time.Now().Add(lockWait); ; time.Sleep(lockWait / 100) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(late) {
			return err
		}
	}
}

// NotRecord replaces SQLite's error for a file of another format with a plain one.
func NotRecord(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return errors.New("the file is not a record of this program; move it away or name another")
	}
	return err
}

// A short interval keeps a checkpoint to a few milliseconds, but a page changed by many commits
// should be copied only once.
const checkpointEvery = time.Second

// A shorter log has no cost, and a checkpoint takes two fsyncs. The size is read without opening
// the file, because closing a file that SQLite has open ends its locks.
//
// spec: SQLite "How To Corrupt", §2.2
const minLogBytes = 8 << 20

// A checkpoint on the writing connection would delay its commit, so a checkpointer uses a separate
// one. A commit starts a checkpoint only if the log grows faster, see [file.writer].
type checkpointer struct {
	of      file
	on      *sql.DB
	mu      sync.Mutex    // held during a checkpoint
	written chan struct{} // since the last check of the log
	closing chan struct{}
	closed  chan struct{}
}

func startCheckpoints(ctx context.Context, f file, pragmas []string) (*checkpointer, error) {
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

func (c *checkpointer) wrote() {
	select {
	case c.written <- struct{}{}:
	default:
	}
}

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

// Does not wait for readers or for the writer. An error has no consequence: the pages stay in the
// log until the next checkpoint, and a commit reports a failing disk.
func (c *checkpointer) checkpoint(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.on.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
}

// Close waits for a running checkpoint.
func (c *checkpointer) Close() error {
	close(c.closing)
	<-c.closed
	return c.on.Close()
}

// The write-ahead log, and its index, which is the shared memory of processes.
const (
	WALSuffix = "-wal"
	shmSuffix = "-shm"
)

// Offsets in the two files, in bytes.
//
// spec: SQLite "WAL-mode File Format"
const (
	walHeader     = 32
	walSalts      = 16 // offset of the 8 bytes in the header of the log
	frameHeader   = 24
	indexPageSize = 14 // 2 bytes, native order
	indexFrames   = 16 // 4 bytes, native order: number of committed frames
	indexSalts    = 32
	indexHeader   = 48
)

// ErrCut is returned for a truncated log.
var ErrCut = errors.New("store: the write-ahead log is cut short")

// If an unclean exit left the write-ahead log and its index, they must match. SQLite writes a commit
// to the index after it has synced the log, so a shorter log has lost acknowledged steps. SQLite
// itself would silently continue with the rest.
//
// A power cut leaves no index, and unfinished writes were never acknowledged.
func checkWAL(path string) error {
	index, err := readHead(path+shmSuffix, indexHeader)
	if err != nil || len(index) < indexHeader {
		return err
	}
	frames := int64(binary.NativeEndian.Uint32(index[indexFrames:]))
	log, err := readHead(path+WALSuffix, walHeader)
	if err != nil || frames == 0 {
		return err
	}
	if len(log) == walHeader && string(log[walSalts:walSalts+8]) != string(index[indexSalts:indexSalts+8]) {
		return nil // the index belongs to another log
	}
	size, err := sizeOf(path + WALSuffix)
	if err != nil {
		return err
	}
	page := int64(binary.NativeEndian.Uint16(index[indexPageSize:]))
	if page == 1 {
		page = 1 << 16 // which 2 bytes cannot hold
	}
	if want := walHeader + frames*(frameHeader+page); size < want {
		return fmt.Errorf("%w: it has %d bytes and had %d; restore a backup, or remove the file %s%s to go on without what is missing",
			ErrCut, size, want, path, shmSuffix)
	}
	return nil
}

func readHead(path string, n int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the path
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(f, n))
	return head, errors.Join(err, f.Close())
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
