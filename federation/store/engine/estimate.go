package engine

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// copyRate is how many bytes of a record a migration copies and changes in a second: less than
// half of the rate that was measured on a disk of a virtual machine.
const copyRate = 50 << 20

// Estimate is what the migration of a record in a file takes.
type Estimate struct {
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`   // of the record, which is copied first
	Seconds float64 `json:"seconds"` // roughly, from the size
	Needs   int64   `json:"needs"`   // bytes of disk, for the copy and the write-ahead log
	Free    int64   `json:"free"`    // bytes of the same disk
}

// estimate returns what the migration of a record in a file takes.
func estimate(ctx context.Context, db *sql.DB, path string) (*Estimate, error) {
	e := &Estimate{}
	err := db.QueryRowContext(ctx, `SELECT c.page_count * s.page_size FROM pragma_page_count c, pragma_page_size s`).Scan(&e.Bytes)
	if err != nil {
		return nil, Failure(err)
	}
	var counts sql.NullString
	err = db.QueryRowContext(ctx, `SELECT group_concat('(SELECT count(*) FROM "' || name || '")', ' + ') FROM sqlite_schema WHERE type = 'table'`).Scan(&counts)
	if err == nil && counts.Valid {
		err = db.QueryRowContext(ctx, `SELECT `+counts.String).Scan(&e.Rows)
	}
	if err != nil {
		return nil, Failure(err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &disk); err != nil {
		return nil, fmt.Errorf("measure %s: %w", filepath.Dir(path), err)
	}
	e.Free = int64(disk.Bavail * uint64(disk.Bsize)) //nolint:gosec // no disk has so many bytes
	e.Needs, e.Seconds = 2*e.Bytes, float64(e.Bytes)/copyRate
	return e, nil
}

// String returns the estimate for people.
func (e Estimate) String() string {
	const mega = 1 << 20
	var said strings.Builder
	took := time.Duration(e.Seconds * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(&said, "%d rows, %d MiB to copy, about %s; needs %d MiB of disk, and %d MiB are free", e.Rows, (e.Bytes+mega-1)/mega, max(took, time.Second), (e.Needs+mega-1)/mega, e.Free/mega)
	if e.Free < e.Needs {
		said.WriteString(": make room first")
	}
	return said.String()
}
