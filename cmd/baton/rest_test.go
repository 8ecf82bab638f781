package main_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// memoryKiB returns the present size of one sort of a process's memory.
func memoryKiB(tb testing.TB, pid int, sort string) (size int) {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	_, after, found := strings.Cut(string(status), sort+":")
	if _, err := fmt.Sscanf(after, "%d kB", &size); !found || err != nil {
		tb.Fatalf("no %s in %s", sort, status)
	}
	return size
}
