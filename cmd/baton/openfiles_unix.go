//go:build unix

package main

import (
	"math"
	"syscall"
)

// openFiles returns how many files the system lets this process have open, 0 where it
// does not tell.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:unconvert // the type depends on the system
}
