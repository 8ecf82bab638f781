//go:build long

package directory_test

// rounds is how many files the processes claim one after the other.
const rounds = 100
