package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
)

// The two bytes of a database file that name its journal mode, and their offset: the pages need no
// write-ahead log.
//
// spec: SQLite "Database File Format" §1.3.3
const (
	rollbackMode  = "\x01\x01"
	journalModeAt = 18
)

// Pages are the pages of a record in a file at one moment, as a database file of their own. They are
// read from the record itself, so that a backup needs no room beside it. Until Close the
// write-ahead log keeps what is written meanwhile.
type Pages struct {
	Bytes   int64 // of all pages
	Version int   // of the schema

	snapshot *ReadSnapshot
	tx       *sql.Tx
}

// OpenPages opens the pages of the record at a path. It reads all of them, and returns an error for a
// damaged record. The error wraps [fs.ErrNotExist] if there is no record, and is a
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
	if p.Version, err = schemaVersion(ctx, p.tx); err != nil { // a backup of another program's file is useless
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

// WriteTo writes all pages. It may be called again, and writes the same bytes.
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

// Close ends the reading.
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
