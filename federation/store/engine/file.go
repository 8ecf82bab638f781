package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxReaders bounds the connections that read: each has a page cache, and more
// than a few at a time wait for the same disk.
const maxReaders = 4

// ownerOnly are the permissions of the record: it holds private messages.
const ownerOnly = 0o600

// file is the location of a record, absolute.
type file string

// Pragma is a setting of the connections that write to a file, as SQLite has it.
type Pragma string

// NoSync leaves the time of the writes to the disk to the system: a power cut may damage the
// record. It is for tests.
const NoSync Pragma = "synchronous(OFF)"

// openFile makes an empty file where there is none. SQLite would make one that
// everybody may read; its companions (-wal, -shm) inherit the permissions.
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

// checkWritable reads the permission bits, so that they bind the superuser too, which the
// system always lets write.
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

// writer names the file to the driver, for the connection that writes. The
// fullfsync settings matter on macOS alone, where fsync returns before the disk
// has the bytes. The last of two pragmas of one name holds.
func (f file) writer(more ...Pragma) string {
	pragmas := []string{
		"busy_timeout(5000)", // milliseconds; an SQLite shell may hold the file
		"synchronous(FULL)",
		"fullfsync(1)",
		"checkpoint_fullfsync(1)",
		"wal_autocheckpoint(16000)", // pages, 64 MiB, or 128 of 8 KiB: checkpoints cost more than a long WAL
		"cache_size(-65536)",        // KiB
		"temp_store(MEMORY)",        // undo of one write: a few pages
		"foreign_keys(0)",
	}
	for _, pragma := range more {
		pragmas = append(pragmas, string(pragma))
	}
	return f.dsn(url.Values{"_pragma": pragmas})
}

// reader names the file to the driver, for connections that cannot write.
func (f file) reader() string {
	return f.dsn(url.Values{
		"mode": {"ro"},
		"_pragma": {
			"busy_timeout(5000)",
			"cache_size(-16384)", // KiB, for each
		},
	})
}

func (f file) dsn(options url.Values) string {
	options.Set("_dqs", "0") // a misspelt column is an error, not a string
	return (&url.URL{Scheme: "file", Path: string(f), RawQuery: options.Encode()}).String()
}

// Lock keeps every process from opening the record at a path until it is closed, or
// this process ends. There need be no record.
func Lock(path string) (io.Closer, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("lock record %s: %w", path, err)
	}
	return lock, nil
}

// lockFile takes a lock that ends with this process. The file stays: to remove it
// would let two processes lock two files of one name.
func lockFile(path string) (*os.File, error) {
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another process has it open")
		}
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return f, nil
}

// NotRecord says plainly what SQLite says of a file that is something else.
func NotRecord(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return errors.New("the file is not a record of this program; move it away or name another")
	}
	return err
}
