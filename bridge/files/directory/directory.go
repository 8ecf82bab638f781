// Package directory reads and changes files in a directory that other programs change at the same
// time. A file appears whole, moves to only one place, and never replaces another file.
//
// The directory is not trusted: [Read] follows no symbolic link, opens only regular files, and has
// a size limit.
package directory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// OddError is returned by [Read] for anything but a readable file. It recurs until some program
// changes the file.
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
	Irregular  = "irregular" // symbolic link, FIFO, socket, device or folder
	TooLarge   = "too-large"
	Unreadable = "unreadable" // no permission, or a disk error
)

// Stamp detects changes of a file. Two stamps of an unchanged file are equal.
type Stamp struct {
	Inode    uint64
	Size     int64
	Modified int64 // unix nanoseconds
	Changed  int64 // also changes with the mode; unix nanoseconds
}

// Stat returns the stamp of a file, without following a link.
func Stat(path string) (Stamp, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Stamp{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return stampOf(&st), nil
}

func stampOf(st *unix.Stat_t) Stamp {
	return Stamp{Inode: st.Ino, Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}
}

// Each calls do with the name and the stamp of each file of a folder, in no order, until do returns
// an error. It skips a file that disappears during the call.
func Each(path string, do func(name string, stamp Stamp) error) error {
	folder, err := os.Open(path) //nolint:gosec // the path is of a directory that the operator names
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Fstatat(int(folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
		if err := do(name, stampOf(&st)); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the content of a regular file up to a maximum size. Its error is an [*OddError], or
// wraps [fs.ErrNotExist].
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
		return nil, &OddError{Irregular, errors.New("it is not a regular file")}
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

// Create writes a new file with the given mode. A reader sees the whole file or none. After a nil
// error the file is on disk. The error wraps [fs.ErrExist] if the name is taken.
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

// Replace is [Create] for a file that may already exist. Readers see the old content or the new
// one.
func Replace(path string, content []byte, mode fs.FileMode) error {
	temp, err := writeTemp(path, content, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("replace %s: %w", filepath.Base(path), err)
	}
	return syncFolder(filepath.Dir(path))
}

// Readers skip names of unfinished files.
const tempSuffix = ".tmp"

// IsTemp reports whether a name is that of an unfinished file.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, tempSuffix)
}

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

// Move moves a file and never replaces another file. If several callers move one file, only one
// succeeds. Its error wraps [fs.ErrNotExist] if the file is gone and [fs.ErrExist] if the new name
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

// Claim moves a file to a name used only by the caller. If several processes claim one file, on one
// host or on several, only one succeeds. A crash leaves the file under one of the two names, never
// under both. Errors are as for [Move].
func Claim(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(syncFolder(filepath.Dir(to)), syncFolder(filepath.Dir(from)))
}

// If several processes link the file, the process that removes the old name has moved it.
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

// Folder identifies a folder. A folder mounted or created in its place has another identity.
type Folder struct {
	Device, Inode uint64
	born          int64 // Unix nanoseconds; 0 if the file system does not store it
}

// Same reports whether two identities belong to the same folder. It compares the birth times if
// both are known, because a file system may reuse the inode of a deleted folder.
func (f Folder) Same(other Folder) bool {
	if f.born != 0 && other.born != 0 {
		return f.Inode == other.Inode && f.born == other.born
	}
	return f.Inode == other.Inode && f.Device == other.Device
}

// FolderAt returns the folder at a path, or an error if there is none.
func FolderAt(path string) (Folder, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Folder{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return Folder{}, fmt.Errorf("%s is not a folder", path)
	}
	return Folder{uint64(st.Dev), st.Ino, birth(path)}, nil //nolint:unconvert // the type of Dev differs between systems
}
