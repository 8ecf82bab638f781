package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"baton/federation"
)

// readSnapshot is a record that is read and not changed. Another process that has it open may
// go on writing.
type readSnapshot struct {
	db     *sql.DB
	ours   bool              // no other process has the record open
	lock   *os.File          // nil where there is no file to lock
	beside map[string][]byte // the files beside it that SQLite may change, with their content; nil for no file
}

func openReadSnapshot(path string) (*readSnapshot, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(abs); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	s := &readSnapshot{}
	if s.lock, s.ours, err = lockIfThere(abs + ".lock"); err != nil {
		return nil, err
	}
	if s.ours {
		s.beside, err = whatIsBeside(abs)
	}
	if err == nil {
		s.db, err = sql.Open("sqlite", file(abs).reader())
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// whatIsBeside reads the index of the write-ahead log, which SQLite writes anew when
// it opens the file after a crash, and notes whether there is a log. An index is a
// thousandth of its log.
func whatIsBeside(path string) (map[string][]byte, error) {
	beside := map[string][]byte{}
	if _, err := os.Stat(path + walSuffix); errors.Is(err, fs.ErrNotExist) {
		beside[path+walSuffix] = nil
	}
	index, err := os.ReadFile(path + shmSuffix) //nolint:gosec // the operator names the path
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, diskError(err)
	}
	beside[path+shmSuffix] = index
	return beside, nil
}

// lockIfThere reports whether no other process has the record open, and keeps others out
// until the lock is closed. A process that opens a record makes the lock file first.
func lockIfThere(path string) (lock *os.File, ours bool, err error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the path
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, diskError(err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, f.Close()
	}
	if err != nil {
		return nil, false, errors.Join(&federation.UnavailableError{What: "record", Err: err}, f.Close())
	}
	return f, true, nil
}

// Close closes the record, and restores the files beside it. While another process has the
// record open, these belong to that process, and are as they were.
func (s *readSnapshot) Close() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
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
