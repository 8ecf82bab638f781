// Package storetest opens records for the tests of other packages: SQLite files, as a home
// has them, in a folder of the test.
package storetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"baton/federation/store/registry"
)

// empty returns the file of a record without rows. A copy of it opens in a few milliseconds;
// the schema takes ten times as long.
//
//nolint:gochecknoglobals // all tests of a process copy one file
var empty = sync.OnceValues(func() (file []byte, err error) {
	folder, err := os.MkdirTemp("", "baton-record-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "baton.db")
	record, err := registry.Open(context.Background(), path, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	if err := record.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path) //nolint:gosec // the path is ours
})

// Open opens a record without rows. It is closed at the end of the test.
func Open(tb testing.TB) *registry.Record {
	tb.Helper()
	record, err := open(tb)
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

func open(tb testing.TB) (*registry.Record, error) {
	tb.Helper()
	file, err := empty()
	if err != nil {
		return nil, fmt.Errorf("make the schema: %w", err)
	}
	path := filepath.Join(tb.TempDir(), "baton.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return nil, err
	}
	return registry.Open(context.WithoutCancel(tb.Context()), path, prometheus.NewRegistry())
}
