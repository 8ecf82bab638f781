package directory

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// rename renames a file unless the new name is taken.
func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
		return moveByLink(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
