package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/federation"
)

// Migrate migrates the record in a file like [Open], without opening it, and returns the same
// errors. The progress may be nil.
func Migrate(ctx context.Context, path string, tables Tables, now time.Time, report Progress) (Upgrade, error) {
	known, err := migrationsOf(sqliteSchema, tables)
	if err != nil {
		return Upgrade{}, err
	}
	return migrateFile(ctx, path, known, now, report)
}

func migrateFile(ctx context.Context, path string, known []migration, now time.Time, report Progress) (done Upgrade, err error) {
	f, conn, opened, err := openWriter(ctx, path)
	if err == nil {
		done, err = migrate(ctx, conn, f, known, now, report)
	}
	if err := errors.Join(NotRecord(err), opened.Close()); err != nil {
		return done, fmt.Errorf("migrate record %s: %w", path, err)
	}
	return done, nil
}

// Plan reports the steps of a [Migrate], without changes.
func Plan(ctx context.Context, path string) (Upgrade, error) {
	known, err := migrationsOf(sqliteSchema, nil)
	if err != nil {
		return Upgrade{}, err
	}
	return planFile(ctx, path, known)
}

func planFile(ctx context.Context, path string, known []migration) (planned Upgrade, err error) {
	s, err := OpenReadSnapshot(path)
	if err == nil {
		planned, err = s.plan(ctx, known)
		if err == nil && planned.From > 0 && planned.From < planned.To {
			planned.Estimate, err = estimate(ctx, s.DB, path)
		}
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return planned, fmt.Errorf("read record %s: %w", path, err)
	}
	return planned, nil
}

func (s *ReadSnapshot) plan(ctx context.Context, known []migration) (Upgrade, error) {
	version, err := schemaVersion(ctx, s.DB)
	if err != nil {
		return Upgrade{}, NotRecord(err)
	}
	planned := Upgrade{From: version, To: latest(known)}
	return planned, planned.CheckNewer()
}

// Copy writes a consistent snapshot of a record to a new file, durably and readable only by the
// owner. Another process may continue to write to the record. The error wraps [fs.ErrExist] if the
// target exists, [fs.ErrNotExist] if there is no record, or [*federation.UnavailableError] if a
// disk cannot be used now. After an error it leaves nothing at the target.
func Copy(ctx context.Context, from, to string) error {
	s, err := OpenReadSnapshot(from)
	if err == nil {
		err = errors.Join(s.copy(ctx, to), s.Close())
	}
	if err != nil {
		return fmt.Errorf("copy record %s: %w", from, err)
	}
	return nil
}

func (s *ReadSnapshot) copy(ctx context.Context, to string) error {
	conn, err := s.DB.Conn(ctx)
	if err != nil {
		return Failure(err)
	}
	if _, err = schemaVersion(ctx, conn); err == nil { // rejects another program's file
		err = copyTo(ctx, conn, to)
	}
	return errors.Join(NotRecord(err), conn.Close())
}

// The copy gets its final name only once it is complete.
func keepVersion(ctx context.Context, conn *sql.Conn, f file, version int, now time.Time) (string, error) {
	path := fmt.Sprintf("%s.v%d-%s.bak", f, version, now.UTC().Format("20060102T150405.000Z"))
	draft := fmt.Sprintf("%s.v%d.draft", f, version)
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) { // from an interrupted start
		return "", err
	}
	if err := copyTo(ctx, conn, draft); err != nil {
		return "", err
	}
	if err := os.Rename(draft, path); err != nil {
		return "", errors.Join(err, os.Remove(draft))
	}
	return path, syncFolder(path)
}

// SQLite reads every page, so a damaged record fails here. It does not sync the copy.
func copyTo(ctx context.Context, conn *sql.Conn, path string) (err error) {
	target, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, ownerOnly) //nolint:gosec // the operator names the path
	if err != nil {
		return diskError(err)
	}
	defer func() {
		err = errors.Join(err, target.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if _, err := conn.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return Failure(err)
	}
	if err := target.Sync(); err != nil {
		return diskError(err)
	}
	return syncFolder(path)
}

func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return diskError(errors.Join(folder.Sync(), folder.Close()))
}

// An outage of the disk proves nothing about its content. A wrong path is not an outage.
func diskError(err error) error {
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &federation.UnavailableError{What: "disk", Err: err}
}

// ReadSnapshot is a record in a file opened only for reading. Another process may continue to write
// to it.
type ReadSnapshot struct {
	DB     *sql.DB
	Ours   bool // no other process has the record open
	path   string
	lock   *os.File          // nil without a file to lock
	beside map[string][]byte // companion files that SQLite may change; nil content for no file
}

// OpenReadSnapshot opens the record at a path.
func OpenReadSnapshot(path string) (*ReadSnapshot, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(abs); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	s := &ReadSnapshot{path: path}
	if s.lock, s.Ours, err = lockIfThere(abs + ".lock"); err != nil {
		return nil, err
	}
	if s.Ours {
		s.beside, err = whatIsBeside(abs)
	}
	if err == nil {
		s.DB, err = sql.Open("sqlite", file(abs).reader())
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// SQLite rewrites the index of the write-ahead log when it opens the file after a crash. The index
// is a thousandth of the size of its log.
func whatIsBeside(path string) (map[string][]byte, error) {
	beside := map[string][]byte{}
	if _, err := os.Stat(path + WALSuffix); errors.Is(err, fs.ErrNotExist) {
		beside[path+WALSuffix] = nil
	}
	index, err := os.ReadFile(path + shmSuffix) //nolint:gosec // the operator names the path
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, diskError(err)
	}
	beside[path+shmSuffix] = index
	return beside, nil
}

// Other processes are excluded until the lock is closed. The call waits up to [lockWait] for a
// released lock. A process that opens a record creates the lock file first.
func lockIfThere(path string) (lock *os.File, ours bool, err error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the path
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, diskError(err)
	}
	err = waitLock(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, f.Close()
	}
	if err != nil {
		return nil, false, errors.Join(&federation.UnavailableError{What: "record", Err: err}, f.Close())
	}
	return f, true, nil
}

// CheckLog returns an error wrapping [ErrCut] if the write-ahead log is truncated. It skips a
// record open in another process, because its files are never consistent with each other.
func (s *ReadSnapshot) CheckLog() error {
	if !s.Ours {
		return nil
	}
	return checkWAL(s.path)
}

// Close closes the record, and restores the companion files, unless another process has the record
// open.
func (s *ReadSnapshot) Close() error {
	var errs []error
	if s.DB != nil {
		errs = append(errs, s.DB.Close())
	}
	for name, before := range s.beside {
		errs = append(errs, putBack(name, before))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

func putBack(name string, before []byte) error {
	if before != nil {
		return os.WriteFile(name, before, ownerOnly)
	}
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// These are the value and the offset of the two bytes for the journal mode: the copied pages have
// no write-ahead log.
//
// spec: SQLite "Database File Format" §1.3.3
const (
	rollbackMode  = "\x01\x01"
	journalModeAt = 18
)

// Pages is a snapshot of the pages of a record in a file, which form a database file. A backup of
// them needs no extra space. The write-ahead log grows until Close.
type Pages struct {
	Bytes   int64
	Version int // of the schema

	snapshot *ReadSnapshot
	tx       *sql.Tx
}

// OpenPages opens a snapshot of the record at a path. It reads all pages once, and returns an error
// for a damaged record. The error wraps [fs.ErrNotExist] if there is no record, and
// [*federation.UnavailableError] if the disk cannot be read now.
func OpenPages(ctx context.Context, path string) (_ *Pages, err error) {
	p := &Pages{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy record %s: %w", path, errors.Join(NotRecord(err), p.Close()))
		}
	}()
	if p.snapshot, err = OpenReadSnapshot(path); err != nil {
		return nil, err
	}
	if p.tx, err = p.snapshot.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		return nil, Failure(err)
	}
	if p.Version, err = schemaVersion(ctx, p.tx); err != nil { // rejects another program's database
		return nil, err
	}
	var sound string
	if err := p.tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&sound); err != nil {
		return nil, Failure(err)
	}
	if sound != "ok" {
		return nil, fmt.Errorf("the record is damaged: %s", sound)
	}
	err = p.tx.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&p.Bytes)
	return p, Failure(err)
}

// WriteTo writes all pages. Each call writes the same bytes.
func (p *Pages) WriteTo(ctx context.Context, w io.Writer) error {
	found, err := p.tx.QueryContext(ctx, "SELECT data FROM sqlite_dbpage ORDER BY pgno")
	if err != nil {
		return Failure(err)
	}
	defer found.Close()
	first := true
	for found.Next() {
		var page sql.RawBytes
		if err := found.Scan(&page); err != nil {
			return Failure(err)
		}
		if first {
			copy(page[journalModeAt:], rollbackMode)
			first = false
		}
		if _, err := w.Write(page); err != nil {
			return err
		}
	}
	return Failure(found.Err())
}

// Close releases the snapshot.
func (p *Pages) Close() error {
	var errs []error
	if p.tx != nil {
		errs = append(errs, p.tx.Rollback())
	}
	if p.snapshot != nil {
		errs = append(errs, p.snapshot.Close())
	}
	return errors.Join(errs...)
}
