//go:build unix

package client

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for the exclusive lock of a file, which is held until the file is closed.
func lock(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX)
}
