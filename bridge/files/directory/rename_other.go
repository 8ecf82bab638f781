//go:build !linux

package directory

// rename renames a file unless the new name is taken.
func rename(from, to string) error { return moveByLink(from, to) }
