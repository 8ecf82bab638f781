// Package storetest opens records for the tests of other packages: SQLite files, as in a home, in a
// folder of the test. Commits do not wait for the disk.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/registry"
)

const (
	ramDisk  = "/dev/shm" // of Linux
	ramSpace = 1 << 30    // bytes, for the records of all concurrent tests
)

// Copying an empty record takes a tenth of the time to create the schema.
//
//nolint:gochecknoglobals // all tests of a process copy one file
var empty = sync.OnceValues(func() (file []byte, err error) {
	folder, err := os.MkdirTemp("", "baton-record-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := pathIn(folder)
	record, err := registry.Open(context.Background(), path, prometheus.NewRegistry(), engine.NoSync)
	if err != nil {
		return nil, err
	}
	if err := record.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path) //nolint:gosec // the path is ours
})

// Open opens an empty record, and closes it at the end of the test.
func Open(tb testing.TB) *registry.Record {
	tb.Helper()
	return OpenIn(tb, TempDir(tb))
}

// OpenIn opens or creates the record in a folder, and closes it at the end of the test.
func OpenIn(tb testing.TB, folder string) *registry.Record {
	tb.Helper()
	record, err := openIn(tb, folder)
	if err != nil {
		tb.Fatalf("open a record: %v", err)
	}
	tb.Cleanup(func() {
		if err := record.Close(); err != nil {
			tb.Error(err)
		}
	})
	return record
}

func openIn(tb testing.TB, folder string) (*registry.Record, error) {
	tb.Helper()
	path := pathIn(folder)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		file, err := empty()
		if err != nil {
			return nil, fmt.Errorf("make the schema: %w", err)
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			return nil, err
		}
	}
	return registry.Open(tb.Context(), path, prometheus.NewRegistry(), engine.NoSync)
}

// TempDir creates a folder for records: on a RAM disk with enough space, otherwise below
// [testing.TB.TempDir]. It is removed at the end of the test.
func TempDir(tb testing.TB) string {
	tb.Helper()
	var disk unix.Statfs_t
	if err := unix.Statfs(ramDisk, &disk); err != nil || disk.Bavail*uint64(disk.Bsize) < ramSpace { //nolint:gosec // a size is positive
		return tb.TempDir()
	}
	folder, err := os.MkdirTemp(ramDisk, "baton-record-") //nolint:usetesting // TempDir is on another disk
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			tb.Error(err)
		}
	})
	return folder
}

func pathIn(folder string) string { return filepath.Join(folder, "baton.db") }

// Bound returns a record with its bound names, without a configuration.
func Bound(record *registry.Record) registry.Bound {
	names := registry.BoundNames{Record: record, Configured: func() []federation.BoundName { return nil }}
	return registry.Bound{Record: record, Names: names, Forget: func(federation.DID) {}}
}
