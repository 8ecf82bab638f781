package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// minFreeBytes is the room that a commit needs on the disk of the record: the largest batch, and
// the same again in the write-ahead log.
const minFreeBytes = 4 << 20

// CheckRoom returns an error where the disk of a folder is about to be full.
func CheckRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("measure %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < minFreeBytes { //nolint:gosec // no system has blocks of a negative size
		return fmt.Errorf("%d bytes are free at %s, fewer than %d", free, dir, minFreeBytes)
	}
	return nil
}
