package engine

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

// ReadSnapshot is a record in a file that is read and not changed. Another process that has it open may
// go on writing.
type ReadSnapshot struct {
	DB     *sql.DB
	Ours   bool // no other process has the record open
	path   string
	lock   *os.File          // nil where there is no file to lock
	beside map[string][]byte // the files beside it that SQLite may change, with their content; nil for no file
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

// whatIsBeside reads the index of the write-ahead log, which SQLite writes anew when
// it opens the file after a crash, and notes whether there is a log. An index is a
// thousandth of its log.
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

// CheckLog returns an error wrapping [ErrCut] where the write-ahead log lost its end. Of a
// record that another process has open it says nothing: its files are never of one moment.
func (s *ReadSnapshot) CheckLog() error {
	if !s.Ours {
		return nil
	}
	return checkWAL(s.path)
}

// Close closes the record, and restores the files beside it. While another process has the
// record open, these belong to that process, and are as they were.
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
