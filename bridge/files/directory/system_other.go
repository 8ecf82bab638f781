//go:build !linux

package directory

func rename(from, to string) error { return moveByLink(from, to) }

// This system does not report birth times.
func birth(string) int64 { return 0 }
