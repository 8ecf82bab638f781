package bare

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"baton/federation/store/engine"
)

// Schema is a schema of a PostgreSQL server with nothing in it, for one measurement.
type Schema struct {
	DSN string // of connections whose search_path is the schema

	name string
	db   *sql.DB
}

// NewSchema makes a schema with a random name that begins with "baton_bench_". The connection
// string is a URL or keywords. Close the schema.
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

// within returns a connection string with a search_path.
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

// Close removes the schema with all that is in it.
func (s *Schema) Close(ctx context.Context) error {
	_, err := s.db.ExecContext(context.WithoutCancel(ctx), "DROP SCHEMA "+s.name+" CASCADE")
	return errors.Join(err, s.db.Close())
}

// Table is a table of rows of text on a PostgreSQL server. Its methods may be called concurrently.
type Table struct {
	db     *sql.DB
	insert *sql.Stmt
}

// OpenTable makes the table of a schema, for so many connections. Close it before the schema.
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

// Put commits one row by itself.
func (t *Table) Put(ctx context.Context, text string) error {
	_, err := t.insert.ExecContext(ctx, text)
	return err
}

// Close ends its connections.
func (t *Table) Close() error { return errors.Join(t.insert.Close(), t.db.Close()) }
