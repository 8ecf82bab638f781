//go:build !linux

package directory

import "syscall"

// rename renames a file unless the new name is taken.
func rename(from, to string) error { return moveByLink(from, to) }

func changed(sys *syscall.Stat_t) int64 { return sys.Ctimespec.Nano() }

func device(sys *syscall.Stat_t) uint64 { return uint64(sys.Dev) }
