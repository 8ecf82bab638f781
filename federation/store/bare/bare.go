// Package bare stores rows of text at the lowest cost that the database of a record allows: one
// table without an index, and one row per call. It is the baseline of `baton bench`, not a record.
package bare

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver of a record in a file

	"github.com/baton-gateway/baton/federation/store/engine"
)

// The record has the same bound.
const maxBatch = 128

// File is a database of rows, safe for concurrent use.
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

// Open creates a database at a path, with the settings of a record. The caller closes it.
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

// Put stores a row, and returns once it is on disk together with concurrent rows. It must not be
// called after Close.
func (f *File) Put(text string) error {
	r := row{text, make(chan error, 1)}
	f.waiting <- r
	return <-r.done
}

// Page returns the rows after an offset, in filing order.
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

// Close closes the database.
func (f *File) Close() error {
	close(f.closing)
	f.writing.Wait()
	return errors.Join(f.insert.Close(), f.page.Close(), f.db.Close())
}

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

// Schema is an empty schema of a PostgreSQL server, for one measurement.
type Schema struct {
	DSN string // of connections whose search_path is the schema

	name string
	db   *sql.DB
}

// NewSchema creates a schema with a random name that begins with "baton_bench_". The connection
// string is a URL or keywords. The caller closes the schema.
func NewSchema(ctx context.Context, dsn string) (*Schema, error) {
	db, err := engine.ConnectPostgres(dsn)
	if err != nil {
		return nil, err
	}
	s := &Schema{name: "baton_bench_" + strings.ToLower(rand.Text()), db: db}
	if s.DSN, err = within(dsn, s.name); err == nil {
		_, err = db.ExecContext(ctx, "CREATE SCHEMA "+s.name)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make schema on PostgreSQL: %w", err), db.Close())
	}
	return s, nil
}

func within(dsn, schema string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn + " search_path=" + schema, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("the connection string is no URL") // the error would show the password
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// Close removes the schema with all its content.
func (s *Schema) Close(ctx context.Context) error {
	_, err := s.db.ExecContext(context.WithoutCancel(ctx), "DROP SCHEMA "+s.name+" CASCADE")
	return errors.Join(err, s.db.Close())
}

// Table is a table of rows of text on a PostgreSQL server, safe for concurrent use.
type Table struct {
	db     *sql.DB
	insert *sql.Stmt
}

// OpenTable creates the table of a schema, for a number of connections. The caller closes it before
// the schema.
func (s *Schema) OpenTable(ctx context.Context, connections int) (*Table, error) {
	db, err := engine.ConnectPostgres(s.DSN)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	t := &Table{db: db}
	if _, err = db.ExecContext(ctx, `CREATE TABLE event (n bigserial PRIMARY KEY, body text NOT NULL)`); err == nil {
		t.insert, err = db.PrepareContext(ctx, `INSERT INTO event (body) VALUES ($1)`)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make table on PostgreSQL: %w", err), db.Close())
	}
	return t, nil
}

// Put commits one row in its own transaction.
func (t *Table) Put(ctx context.Context, text string) error {
	_, err := t.insert.ExecContext(ctx, text)
	return err
}

// Close closes the connections.
func (t *Table) Close() error { return errors.Join(t.insert.Close(), t.db.Close()) }
