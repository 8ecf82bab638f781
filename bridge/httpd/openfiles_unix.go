//go:build unix

package httpd

import (
	"math"
	"syscall"
)

// OpenFiles returns the limit of open files of this process, or 0 if unknown.
func OpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:unconvert // the type depends on the system
}
