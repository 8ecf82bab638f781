// Package bare files rows of text at the least cost that the database of a record allows:
// one table, no index, one row a call, in a file or on a PostgreSQL server. `baton bench`
// compares a gateway with it. It is no record.
package bare

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync"

	_ "modernc.org/sqlite" // the driver of a record in a file
)

// maxBatch bounds the rows of one transaction, as the record bounds them.
const maxBatch = 128

// File is a database of rows. Its methods may be called concurrently.
type File struct {
	db      *sql.DB
	insert  *sql.Stmt
	page    *sql.Stmt
	waiting chan row
	closing chan struct{}
	writing sync.WaitGroup
}

type row struct {
	text string
	done chan error
}

// Open makes a database at a path, with the settings of a record. Close it.
func Open(ctx context.Context, path string) (*File, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": {
		"journal_mode(WAL)", "synchronous(FULL)", "fullfsync(1)", "wal_autocheckpoint(16000)",
	}}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("open bare record: %w", err)
	}
	db.SetMaxOpenConns(1)
	f := &File{db: db, waiting: make(chan row), closing: make(chan struct{})}
	if _, err = db.ExecContext(ctx, `CREATE TABLE event (n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT`); err == nil {
		f.insert, err = db.PrepareContext(ctx, `INSERT INTO event (body) VALUES (?)`)
	}
	if err == nil {
		f.page, err = db.PrepareContext(ctx, `SELECT body FROM event WHERE n > ? ORDER BY n LIMIT ?`)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make bare record: %w", err), db.Close())
	}
	f.writing.Go(func() { f.write(context.WithoutCancel(ctx)) })
	return f, nil
}

// Put files a row, and returns once it is on disk with the rows that came meanwhile. It must
// not be called after Close.
func (f *File) Put(text string) error {
	r := row{text, make(chan error, 1)}
	f.waiting <- r
	return <-r.done
}

// Page returns the rows after the first so many, in the order in which they were filed.
func (f *File) Page(ctx context.Context, after, limit int) (texts []string, err error) {
	rows, err := f.page.QueryContext(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// Close ends the database.
func (f *File) Close() error {
	close(f.closing)
	f.writing.Wait()
	return errors.Join(f.insert.Close(), f.page.Close(), f.db.Close())
}

// write commits the rows that wait, until Close.
func (f *File) write(ctx context.Context) {
	for {
		select {
		case first := <-f.waiting:
			batch := f.gather(first)
			err := f.commit(ctx, batch)
			for _, r := range batch {
				r.done <- err
			}
		case <-f.closing:
			return
		}
	}
}

// gather takes the rows that wait at this moment.
func (f *File) gather(first row) []row {
	batch := []row{first}
	for len(batch) < maxBatch {
		select {
		case r := <-f.waiting:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

func (f *File) commit(ctx context.Context, batch []row) (err error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	insert := tx.StmtContext(ctx, f.insert)
	for _, r := range batch {
		if _, err := insert.ExecContext(ctx, r.text); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}
