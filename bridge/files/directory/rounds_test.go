//go:build !long

package directory_test

// rounds is how many files the processes claim one after the other. The long run has all of them.
const rounds = 8
