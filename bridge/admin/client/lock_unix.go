//go:build unix

package client

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock waits until no other process has a file locked, and locks it until it is closed.
func lock(f *os.File) error {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX)
}
