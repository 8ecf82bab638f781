// Package directory reads and changes files in a directory that other programs change at the
// same time. A file appears whole, moves to one place only, and never replaces another one.
//
// The directory is not trusted: [Read] follows no symbolic link, opens nothing but regular
// files, and has a bound.
package directory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OddError is returned by [Read] for what is no file to read. It does not go away by itself:
// some program has to change the file.
type OddError struct {
	Reason string // one word, of a closed set
	Err    error
}

// Error implements error.
func (e *OddError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OddError) Unwrap() error { return e.Err }

// The reasons of an [OddError].
const (
	Irregular  = "irregular"  // a symbolic link, FIFO, socket, device or folder
	TooLarge   = "too-large"  // over the bound
	Unreadable = "unreadable" // no permission, or an error of the disk
)

// Stamp tells whether a file is the one that it was. Two stamps of an unchanged file are equal.
type Stamp struct {
	Inode    uint64
	Size     int64
	Modified int64 // unix nanoseconds
	Changed  int64 // unix nanoseconds: also changes with the mode
}

// StampOf returns the stamp of a file that was looked up without following a link.
func StampOf(info fs.FileInfo) Stamp {
	s := Stamp{Size: info.Size(), Modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode, s.Changed = sys.Ino, changed(sys)
	}
	return s
}

// Read returns the content of a regular file of at most a number of bytes. Its error is an
// [*OddError], or wraps [fs.ErrNotExist].
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) //nolint:gosec // the path is of a directory that the operator names
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return nil, &OddError{Irregular, err}
	case err != nil:
		return nil, &OddError{Unreadable, err}
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, &OddError{Unreadable, err}
	case !info.Mode().IsRegular():
		return nil, &OddError{Irregular, errors.New("it is no regular file")}
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, &OddError{Unreadable, err}
	case int64(len(content)) > limit:
		return nil, &OddError{TooLarge, fmt.Errorf("it has more than %d bytes", limit)}
	}
	return content, nil
}

// Create writes a new file, with the mode 0600 or another one. A reader sees the whole file or
// none. After a nil error the file is on disk. The error wraps [fs.ErrExist] where the name is
// taken.
func Create(path string, content []byte, mode fs.FileMode) error {
	temp, err := writeTemp(path, content, mode)
	if err != nil {
		return err
	}
	err = os.Link(temp, path)
	_ = os.Remove(temp)
	if err != nil {
		return fmt.Errorf("create %s: %w", filepath.Base(path), err)
	}
	return syncFolder(filepath.Dir(path))
}

// tempSuffix ends the name of a file that is being written. Readers pass over such names.
const tempSuffix = ".tmp"

// IsTemp reports whether a name is that of a file that is being written.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, tempSuffix)
}

// writeTemp writes the content of a file under another name in its folder.
func writeTemp(path string, content []byte, mode fs.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+tempSuffix)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return f.Name(), nil
}

// Move moves a file and never replaces another one: of many that move one file, one succeeds.
// Its error wraps [fs.ErrNotExist] where the file is gone and [fs.ErrExist] where the new name
// is taken. After a nil error the move is on disk.
func Move(from, to string) error {
	if err := rename(from, to); err != nil {
		return err
	}
	if err := syncFolder(filepath.Dir(to)); err != nil || filepath.Dir(from) == filepath.Dir(to) {
		return err
	}
	return syncFolder(filepath.Dir(from))
}

// moveByLink is Move for a file system without an exclusive rename. Of several that link the
// file, the one that removes the old name has moved it.
func moveByLink(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	err := os.Remove(from)
	if errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(to)
	}
	return err
}

func syncFolder(path string) error {
	folder, err := os.Open(path) //nolint:gosec // the path is of a directory that the operator names
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems cannot
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

// Folder identifies a folder: another one that is mounted or made in its place has another
// identity.
type Folder struct{ Device, Inode uint64 }

// FolderAt returns the folder at a path. Its error says that there is none.
func FolderAt(path string) (Folder, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Folder{}, err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return Folder{}, fmt.Errorf("%s is no folder", path)
	}
	return Folder{device(sys), sys.Ino}, nil
}
