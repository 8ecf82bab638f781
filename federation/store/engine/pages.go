package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
)

// Value and offset of the two bytes that name the journal mode in a database file: the copied pages
// have no write-ahead log.
//
// spec: SQLite "Database File Format" §1.3.3
const (
	rollbackMode  = "\x01\x01"
	journalModeAt = 18
)

// Pages is a snapshot of the pages of a record in a file, which form a database file of their own.
// They are read from the record itself, so a backup needs no space beside it. The write-ahead log
// grows until Close.
type Pages struct {
	Bytes   int64 // total size
	Version int   // schema version

	snapshot *ReadSnapshot
	tx       *sql.Tx
}

// OpenPages opens a snapshot of the record at a path. It reads all pages once, and returns an error
// for a damaged record. The error wraps [fs.ErrNotExist] if there is no record, and is a
// [*federation.UnavailableError] if the disk cannot be read now.
func OpenPages(ctx context.Context, path string) (_ *Pages, err error) {
	p := &Pages{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy record %s: %w", path, errors.Join(NotRecord(err), p.Close()))
		}
	}()
	if p.snapshot, err = OpenReadSnapshot(path); err != nil {
		return nil, err
	}
	if p.tx, err = p.snapshot.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		return nil, Failure(err)
	}
	if p.Version, err = schemaVersion(ctx, p.tx); err != nil { // rejects a database of another program
		return nil, err
	}
	var sound string
	if err := p.tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&sound); err != nil {
		return nil, Failure(err)
	}
	if sound != "ok" {
		return nil, fmt.Errorf("the record is damaged: %s", sound)
	}
	err = p.tx.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&p.Bytes)
	return p, Failure(err)
}

// WriteTo writes all pages. Each call writes the same bytes.
func (p *Pages) WriteTo(ctx context.Context, w io.Writer) error {
	found, err := p.tx.QueryContext(ctx, "SELECT data FROM sqlite_dbpage ORDER BY pgno")
	if err != nil {
		return Failure(err)
	}
	defer found.Close()
	first := true
	for found.Next() {
		var page sql.RawBytes
		if err := found.Scan(&page); err != nil {
			return Failure(err)
		}
		if first {
			copy(page[journalModeAt:], rollbackMode)
			first = false
		}
		if _, err := w.Write(page); err != nil {
			return err
		}
	}
	return Failure(found.Err())
}

// Close releases the snapshot.
func (p *Pages) Close() error {
	var errs []error
	if p.tx != nil {
		errs = append(errs, p.tx.Rollback())
	}
	if p.snapshot != nil {
		errs = append(errs, p.snapshot.Close())
	}
	return errors.Join(errs...)
}
